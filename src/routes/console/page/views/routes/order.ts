/** The list with the element at `from` taken out and put back so that it stands at `to`. */
export function moved<Item>(list: readonly Item[], from: number, to: number): readonly Item[] {
  const item = list[from]
  if (item === undefined || from === to) return list
  const rest = list.filter((_, index) => index !== from)
  return [...rest.slice(0, to), item, ...rest.slice(to)]
}

/** Where an element goes by a key that is pressed on its handle; null: the key means nothing here. */
export function placeByKey(key: string, from: number, count: number): number | null {
  switch (key) {
    case 'ArrowUp':
      return Math.max(0, from - 1)
    case 'ArrowDown':
      return Math.min(count - 1, from + 1)
    case 'Home':
      return 0
    case 'End':
      return count - 1
    default:
      return null
  }
}

/** Extent of an element before anything was dragged, pixels from the top of the page. */
export interface Extent {
  readonly top: number
  readonly height: number
}

/**
 * Where an element that is dragged by `dy` pixels would stand if it were let go now: it changes places with a neighbour
 * when its leading edge passes that one's middle, so that elements of different heights never flicker.
 */
export function placeByDrag(extents: readonly Extent[], from: number, dy: number): number {
  const dragged = extents[from]
  if (dragged === undefined) return from
  const top = dragged.top + dy
  const bottom = top + dragged.height
  let to = from
  for (const [index, { top: start, height }] of extents.entries()) {
    const middle = start + height / 2
    if (index < from && top < middle) return index
    if (index > from && bottom > middle) to = index
  }
  return to
}

/** How far each element has to be shown from its place while another is dragged from `from` to `to`, pixels. */
export function shifts(extents: readonly Extent[], from: number, to: number): readonly number[] {
  const gap = gapOf(extents)
  const size = (extents[from]?.height ?? 0) + gap
  return extents.map((_, index) => {
    if (index === from) return 0
    if (index > from && index <= to) return -size
    return index < from && index >= to ? size : 0
  })
}

/** Where the dragged element itself belongs, from its first place, pixels. */
export function landing(extents: readonly Extent[], from: number, to: number): number {
  const gap = gapOf(extents)
  const between = to > from ? extents.slice(from + 1, to + 1) : extents.slice(to, from)
  const distance = between.reduce((sum, { height }) => sum + height + gap, 0)
  return to > from ? distance : -distance
}

function gapOf(extents: readonly Extent[]): number {
  const [first, second] = extents
  return first === undefined || second === undefined ? 0 : second.top - first.top - first.height
}
