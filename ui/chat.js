// A citation's number opens its source, scrolls to its quote and moves the focus there. Without this script the link
// still leads to the source.
document.addEventListener("click", (event) => {
  const link = event.target instanceof Element ? event.target.closest("a.cite") : null;
  const anchor = link?.getAttribute("href") ?? "";
  const source = anchor.startsWith("#source-") ? document.getElementById(anchor.slice(1)) : null;
  if (!source) return;
  event.preventDefault();
  source.open = true;
  source.querySelector("summary").focus({ preventScroll: true });
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  (source.querySelector("mark") ?? source).scrollIntoView({ block: "center", behavior: calm ? "auto" : "smooth" });
  source.classList.remove("found");
  void source.offsetWidth; // restarts the animation
  source.classList.add("found");
});

// Gradio labels every message with its source text, markup included, which a screen reader would spell out; and it
// leaves the box's buttons without a name.
new MutationObserver(() => {
  for (const message of document.querySelectorAll("#chat [data-testid][aria-label*='message:']")) message.removeAttribute("aria-label");
  for (const arrow of document.querySelectorAll("#chat .thought-group .arrow button:not([tabindex])")) {
    arrow.tabIndex = -1; // its line is a button already
    arrow.setAttribute("aria-hidden", "true");
  }
  for (const button of document.querySelectorAll("#box button:not([aria-label])"))
    button.setAttribute("aria-label", button.classList.contains("stop-button") ? "Stop" : "Ask");
}).observe(document.documentElement, { childList: true, subtree: true, attributes: true, attributeFilter: ["aria-label"] });
