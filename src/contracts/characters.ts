/** Counts Unicode code points, the unit of limits and prices of texts. */
export function countCharacters(text: string): number {
  let count = text.length
  for (let at = 1; at < text.length; at++)
    if (isSurrogate(text, at, LOW) && isSurrogate(text, at - 1, HIGH)) count -= 1
  return count
}

/** Upper six bits of the two halves of a code point beyond the first 65,536. */
const HIGH = 0xd800
const LOW = 0xdc00

function isSurrogate(text: string, at: number, half: number): boolean {
  return (text.charCodeAt(at) & 0xfc00) === half
}
