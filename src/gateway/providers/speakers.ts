import type { Segment, Word } from '../../contracts/calls.ts'

/**
 * Gives the speakers of a transcript one style of label, whatever the provider calls them (`A`, `spk_1`, 0):
 * `speaker_0` is who speaks first, `speaker_1` who joins next. Words and segments of one speaker keep one label.
 *
 * Two channels number their speakers each from the beginning, so a provider's label must be made unique
 * before it comes here, e.g. as `<channel>:<label>`.
 */
export function labelSpeakers(
  words: readonly Word[],
  segments: readonly Segment[],
): { readonly words: Word[]; readonly segments: Segment[] } {
  const labels = new Map<string, string>()
  const inTime = [...segments, ...words].sort((a, b) => a.start - b.start)
  for (const { speaker } of inTime) {
    if (speaker !== undefined && !labels.has(speaker)) labels.set(speaker, `speaker_${labels.size}`)
  }
  const relabel = <Item extends Word | Segment>(item: Item): Item => {
    const label = item.speaker === undefined ? undefined : labels.get(item.speaker)
    return label === undefined ? item : { ...item, speaker: label }
  }
  return { words: words.map(relabel), segments: segments.map(relabel) }
}
