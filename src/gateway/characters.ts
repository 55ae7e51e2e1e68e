/** Unicode code points: what speech is metered in, and what limits of texts count. */
export function countCharacters(text: string): number {
  let count = 0
  for (const _ of text) count += 1
  return count
}
