// Runs before the first paint, as a plain script: the page is never seen in the wrong theme.
try {
  const theme = localStorage.getItem('lk-theme')
  if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme
} catch {
  // Storage may be forbidden: the theme of the system stays.
}
