/** Kinds of connections that take long and hold something meanwhile. */
export const SLOW_KINDS = [
  ...['json', 'small json', 'multipart', 'raw', 'chunked', 'events', 'answers', 'uploads'],
] as const
export type SlowKind = (typeof SLOW_KINDS)[number]
