const loading = new Map<string, Promise<void>>()

/** Loads a style sheet of style/ once. One that cannot be had is no reason not to show the view. */
export function styleSheet(name: string): Promise<void> {
  const known = loading.get(name)
  if (known) return known
  const link = document.createElement('link')
  const loaded = new Promise<void>((resolve) => {
    link.onload = () => resolve()
    link.onerror = () => resolve()
  })
  link.rel = 'stylesheet'
  link.href = new URL(name, import.meta.url).href
  document.head.append(link)
  loading.set(name, loaded)
  return loaded
}
