/**
 * Trimming by loops from both ends. A regular expression for an end, such as `/x+$/`, begins anew at every `x` of the
 * text: its time grows with the square of a run inside it, and what is trimmed often comes from outside.
 */

/** Whether a character is to be cut off, by its code point. */
export type Cut = (codePoint: number) => boolean

/** @returns the text without the characters at its beginning and at its end that are to be cut off */
export function trimWhere(text: string, isCut: Cut): string {
  let start = 0
  for (let point = text.codePointAt(0); point !== undefined && isCut(point); point = text.codePointAt(start))
    start += widthOf(point)
  return trimEndWhere(text.slice(start), isCut)
}

/** @returns the text without the characters at its end that are to be cut off */
export function trimEndWhere(text: string, isCut: Cut): string {
  let end = text.length
  while (end > 0) {
    const point = pointBefore(text, end)
    if (!isCut(point)) break
    end -= widthOf(point)
  }
  return text.slice(0, end)
}

/** A header's value without the blanks around it: spaces and tabs, no others (RFC 9110, section 5.5). */
export function trimBlanks(text: string): string {
  return trimWhere(text, isBlank)
}

const isBlank: Cut = (point) => point === 0x20 || point === 0x09
const widthOf = (point: number): number => (point > 0xffff ? 2 : 1)

/** The code point that ends at a place. */
function pointBefore(text: string, end: number): number {
  const whole = end > 1 ? text.codePointAt(end - 2)! : 0
  return whole > 0xffff ? whole : text.charCodeAt(end - 1)
}
