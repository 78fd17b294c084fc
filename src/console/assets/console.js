// Renews what a page marks as live: fetches the page again and puts the new pieces in the place of the old ones. Pages are complete
// without it. Nothing is renewed while it is paused, hidden, or under the reader's hands.
"use strict";

(() => {
  const seconds = Number(document.body.dataset.refresh || 0);
  const place = document.getElementById("live");
  if (!seconds || !place) return;

  const key = "tollgate-paused";
  let paused = false;
  try { paused = sessionStorage.getItem(key) === "yes"; } catch { /* storage may be forbidden */ }

  const button = document.createElement("button");
  button.type = "button";
  const said = document.createElement("span");
  said.setAttribute("role", "status");
  place.append(button, " ", said);

  const show = () => {
    button.textContent = paused ? "Renew this page by itself" : "Stop renewing";
    if (paused) said.textContent = "Paused.";
  };
  button.addEventListener("click", () => {
    paused = !paused;
    try { sessionStorage.setItem(key, paused ? "yes" : "no"); } catch { /* it holds for this page then */ }
    said.textContent = "";
    show();
    if (!paused) renew();
  });

  // What is used with the keyboard, or selected, stays as it is until it is let go.
  const busy = (piece) => {
    const selection = document.getSelection();
    return piece.contains(document.activeElement) ||
      (selection && !selection.isCollapsed && piece.contains(selection.anchorNode));
  };

  let running = false;
  const renew = async () => {
    if (paused || running || document.hidden) return;
    running = true;
    try {
      const reply = await fetch(location.href, { credentials: "same-origin", redirect: "error", cache: "no-store" });
      if (!reply.ok) throw new Error(String(reply.status));
      const fresh = new DOMParser().parseFromString(await reply.text(), "text/html");
      for (const old of document.querySelectorAll("[data-live]")) {
        const piece = fresh.getElementById(old.id);
        if (!piece || busy(old) || piece.innerHTML === old.innerHTML) continue;
        const [before, after] = [old, piece].map((root) => root.querySelectorAll("details, [tabindex]"));
        const kept = [...before].map(({ open, scrollLeft, scrollTop }) => ({ open, scrollLeft, scrollTop }));
        old.replaceChildren(...document.adoptNode(piece).childNodes);
        // What the reader opened or scrolled to stays so.
        kept.forEach((state, at) => Object.assign(after[at] ?? {}, state));
      }
      if (said.textContent) said.textContent = "";
    } catch {
      // Said once, not every few seconds: it is read out.
      const words = "The page cannot be renewed at the moment.";
      if (said.textContent !== words) said.textContent = words;
    } finally {
      running = false;
    }
  };

  show();
  setInterval(renew, seconds * 1000);
  document.addEventListener("visibilitychange", renew);
})();
