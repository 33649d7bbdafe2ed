// Buttons that copy a text of the page: `data-copy` is the id of its element.

document.addEventListener("click", async (event) => {
  const button = event.target.closest?.("[data-copy]");
  if (!button) return;
  const text = document.getElementById(button.dataset.copy);
  let said = "Copied";
  try {
    await navigator.clipboard.writeText(text.textContent);
  } catch { // no clipboard without TLS, or in a file that was opened from a disk: select it instead
    window.getSelection().selectAllChildren(text);
    said = "Selected: press Ctrl-C";
  }
  const before = button.dataset.said ??= button.textContent;
  button.textContent = said;
  setTimeout(() => { button.textContent = before; }, 3000);
});
