import { useLayoutEffect } from 'preact/hooks'

/** Elements in which a key is a character, or a choice. */
const TAKES_KEYS = 'input, textarea, select, [contenteditable], [role=tablist], dialog[open]'

/** Runs the command of a key while the view is shown, but not while a text is typed or another key is held down. */
export function useKeys(keys: Readonly<Record<string, () => void>>): void {
  // With what is drawn: a button that is enabled and its key do the same.
  useLayoutEffect(() => {
    const listener = (event: KeyboardEvent) => {
      const { key, target, ctrlKey, metaKey, altKey } = event
      const act = Object.hasOwn(keys, key.toLowerCase()) ? keys[key.toLowerCase()] : undefined
      if (act === undefined || ctrlKey || metaKey || altKey || event.defaultPrevented) return
      if (target instanceof Element && target.closest(TAKES_KEYS) !== null) return
      if (document.querySelector('dialog[open]') !== null) return
      event.preventDefault()
      act()
    }
    addEventListener('keydown', listener)
    return () => removeEventListener('keydown', listener)
  })
}

/** Moves the focus from row to row of the table of that caption. */
export function stepRows(caption: string, by: 1 | -1): void {
  const tables = [...document.querySelectorAll('table')]
  const table = tables.find((one) => one.caption?.textContent === caption)
  const links = [...(table?.querySelectorAll<HTMLElement>('.row-href') ?? [])]
  const at = links.indexOf(document.activeElement as HTMLElement)
  const next =
    links[at < 0 ? (by > 0 ? 0 : links.length - 1) : Math.min(Math.max(at + by, 0), links.length - 1)]
  next?.focus()
  next?.scrollIntoView({ block: 'nearest' })
}
