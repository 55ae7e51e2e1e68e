/**
 * Seconds to the millisecond, as every answer tells them. Applied where a time comes in, from a file or a provider, so
 * that whatever is said of it later agrees.
 */
export function toMilliseconds(seconds: number): number {
  return Math.round(seconds * 1000) / 1000
}
