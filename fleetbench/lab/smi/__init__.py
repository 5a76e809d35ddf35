"""Stand-ins for nvidia-smi, rocm-smi and amd-smi: a program of its own that is copied onto lab hosts.

It reads /etc/fake-gpus at every call and shows the processes of the host's `vllm*` services as holders of
GPU memory. Texts, headers, error texts and exit statuses of nvidia-smi follow a real pair of H200 (driver
580.159.04); those of AMD's tools follow public documentation and were not seen on hardware.

It runs on the host's platform-python (CPython >= 3.11, standard library only) and imports nothing of
fleetbench.
"""
