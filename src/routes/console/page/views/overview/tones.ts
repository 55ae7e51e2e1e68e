/** Six colours, each as a whole and as a dashed line. */
export const TONES = 12

/** Names that have a tone, for as long as the page lives. */
const given = new Map<string, number>()

/**
 * A tone from 1 to `TONES` for each name, which stays the name's own whatever is drawn beside it. A name that is new
 * gets the one that its letters lead to, or the next that nobody has.
 */
export function tonesOf(names: readonly string[], known: Map<string, number> = given): readonly number[] {
  for (const name of names.toSorted()) {
    if (known.has(name)) continue
    const taken = new Set(known.values())
    const first = hash(name) % TONES
    const order = Array.from({ length: TONES }, (_, step) => ((first + step) % TONES) + 1)
    known.set(name, order.find((tone) => !taken.has(tone)) ?? first + 1)
  }
  return names.map((name) => known.get(name) ?? 1)
}

/** FNV-1a. */
function hash(text: string): number {
  let value = 0x811c9dc5
  for (const letter of text) value = Math.imul(value ^ (letter.codePointAt(0) ?? 0), 0x01000193) >>> 0
  return value
}
