"""How text stands out from its ground, as WCAG 2 computes it, of every text that can be seen in a page."""

from __future__ import annotations

from playwright.sync_api import Page

LEAST = 4.5

_SCRIPT = r"""least => {
  const parts = (color) => {
    const found = color.match(/[\d.]+/g)?.map(Number) ?? [0, 0, 0, 0];
    return { rgb: found.slice(0, 3), alpha: color === "transparent" ? 0 : (found[3] ?? 1) };
  };
  const over = (top, ground) => top.rgb.map((value, at) => value * top.alpha + ground[at] * (1 - top.alpha));
  const luminance = (rgb) => {
    const [r, g, b] = rgb.map((value) => {
      const share = value / 255;
      return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  // Every colour that may be behind an element: its own ground, or each stop of its gradient.
  const grounds = (element) => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) {
      const style = getComputedStyle(at);
      const stops = style.backgroundImage.match(/rgba?\([^)]*\)/g) ?? [];
      const own = parts(style.backgroundColor);
      if (stops.length) layers.push(stops.map(parts));
      if (stops.length && stops.every((stop) => parts(stop).alpha === 1)) break;
      if (own.alpha > 0) { layers.push([own]); if (own.alpha === 1) break; }
    }
    let found = [[255, 255, 255]];
    for (const layer of layers.reverse()) {
      found = layer.flatMap((top) => found.map((ground) => over(top, ground)));
    }
    return found;
  };
  // The last filled shape of a chart that was drawn before a text, where the text's middle is.
  const beneath = (drawn, text, box) =>
    [...drawn.querySelectorAll("path, rect")].filter((shape) => {
      const at = shape.getBoundingClientRect();
      const [x, y] = [box.left + box.width / 2, box.top + box.height / 2];
      return parts(getComputedStyle(shape).fill).alpha && at.left <= x && x <= at.right && at.top <= y &&
        y <= at.bottom && shape.compareDocumentPosition(text) & Node.DOCUMENT_POSITION_FOLLOWING;
    }).at(-1);
  const faint = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const text = walker.currentNode.textContent.trim();
    const box = element.getBoundingClientRect();
    if (!text || ["SCRIPT", "STYLE", "OPTION"].includes(element.tagName)) continue;
    if (box.width < 2 || box.height < 2 || !element.checkVisibility({ visibilityProperty: true })) continue;
    const style = getComputedStyle(element);
    const drawn = element.closest("svg");
    const ink = parts(drawn ? style.fill : style.color);
    const shape = drawn && beneath(drawn, element, box);
    const paper = [255, 255, 255];
    const behind = shape ? [over(parts(getComputedStyle(shape).fill), paper)] : grounds(drawn ?? element);
    for (const ground of behind) {
      const [one, two] = [luminance(over(ink, ground)), luminance(ground)];
      const ratio = (Math.max(one, two) + 0.05) / (Math.min(one, two) + 0.05);
      const name = `${element.tagName}.${element.getAttribute("class") ?? ""}`;
      if (ratio < least) faint.push(`${ratio.toFixed(2)} ${name}: ${text.slice(0, 40)}`);
    }
  }
  return [...new Set(faint)];
}"""


def too_faint(page: Page) -> list[str]:
    """Return what can be seen with less than 4.5 : 1, with its ratio; a text in a chart on its shape."""
    found: list[str] = page.evaluate(_SCRIPT, LEAST)
    return found
