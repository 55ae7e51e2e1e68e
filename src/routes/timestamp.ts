/** RFC 3339, UTC, with milliseconds; null for a moment that has not come. */
export function timestamp(atMs: number): string
export function timestamp(atMs: number | null): string | null
export function timestamp(atMs: number | null): string | null {
  return atMs === null ? null : new Date(atMs).toISOString()
}
