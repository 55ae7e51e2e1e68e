/** Colours of --series-…, solid and dashed. */
export const COLOURS = 6
/** Each colour as a whole line and, when all of these are taken, as a dashed one. */
export const TONES = 2 * COLOURS

/** Names that have a tone, for as long as the page lives. */
const given = new Map<string, number>()

/**
 * A tone from 1 to `TONES` for each name, which stays the name's own whatever is drawn beside it. A name that is new
 * gets the one that its letters lead to, or the next free one.
 */
export function tonesOf(names: readonly string[], known: Map<string, number> = given): readonly number[] {
  for (const name of names.toSorted()) {
    if (known.has(name)) continue
    const taken = new Set(known.values())
    const first = hash(name) % COLOURS
    const colours = Array.from({ length: COLOURS }, (_, step) => ((first + step) % COLOURS) + 1)
    const order = [...colours, ...colours.map((colour) => colour + COLOURS)]
    known.set(name, order.find((tone) => !taken.has(tone)) ?? first + 1)
  }
  return names.map((name) => known.get(name) ?? 1)
}

/** Names that have a colour of areas. */
const filled = new Map<string, number>()

/**
 * A tone from 1 to `COLOURS` for each name, no two the same: areas have no dashes. A name keeps its own unless another
 * that is drawn beside it has the same.
 *
 * @param names at most `COLOURS`
 */
export function fillsOf(names: readonly string[], known: Map<string, number> = filled): readonly number[] {
  const taken = new Set<number>()
  const tones = new Map<string, number>()
  const take = (name: string, tone: number) => {
    taken.add(tone)
    tones.set(name, tone)
    known.set(name, tone)
  }
  for (const name of names) {
    const tone = known.get(name)
    if (tone !== undefined && !taken.has(tone)) take(name, tone)
  }
  for (const name of names) {
    if (tones.has(name)) continue
    const first = hash(name) % COLOURS
    const order = Array.from({ length: COLOURS }, (_, step) => ((first + step) % COLOURS) + 1)
    take(name, order.find((tone) => !taken.has(tone)) ?? first + 1)
  }
  return names.map((name) => tones.get(name) ?? 1)
}

/** FNV-1a. */
function hash(text: string): number {
  let value = 0x811c9dc5
  for (const letter of text) value = Math.imul(value ^ (letter.codePointAt(0) ?? 0), 0x01000193) >>> 0
  return value
}
