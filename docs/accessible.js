/* What screen readers and keyboards need of parts that the theme's script makes. */
"use strict";
{
  const mend = () => {
    // A table that is wider than the window is scrolled with the arrow keys once it has the focus.
    for (const wrap of document.querySelectorAll(".md-typeset__scrollwrap")) {
      if (wrap.scrollWidth > wrap.clientWidth) wrap.tabIndex = 0;
      else wrap.removeAttribute("tabindex");
    }
    // The button beside a block of code is no navigation.
    for (const nav of document.querySelectorAll(".md-code__nav")) nav.setAttribute("role", "none");
  };
  new MutationObserver(mend).observe(document.body, { childList: true, subtree: true });
  addEventListener("resize", mend);
  mend();
}
