# client_properties USER CREDENTIAL: set `properties`, what every unit of a bench client has.
# Descriptors: with 1,024 of them a client loses most of its requests at high concurrency.
client_properties() {
  properties=(--property=Type=exec --property=KillMode=mixed --property=User="$1" --property=NoNewPrivileges=yes
    --property=PrivateTmp=yes --property=LimitNOFILE=1048576 --property=TasksMax=infinity)
  if [ -n "$2" ] && [ -e "$2" ]; then properties+=("--property=LoadCredential=hf_token:$2"); fi
}
