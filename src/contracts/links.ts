/** A stored object that a URL opens. */
export interface LinkedObject {
  readonly key: string
  readonly bytes: number
  readonly mediaType: string
}

export interface OpenedLink extends LinkedObject {
  /** For how long its URL opens it yet. */
  readonly leftSeconds: number
}

/** Makes URLs that open one stored object for a while, without an API key. */
export interface Links {
  /**
   * An absolute URL, or a path on this node where its own address is not configured.
   *
   * @param endsAtSeconds epoch seconds, with a fraction, from which on it opens nothing any more; in the future. A
   *   store that counts whole seconds takes the next one: what it opens is deleted at its time all the same
   */
  sign(object: LinkedObject, endsAtSeconds: number): Promise<string>
}

/** Keeps for the caller what only our credential opens at the provider. */
export interface Results {
  /**
   * Streams a result into the object store, a part at a time in memory.
   *
   * @returns a URL that opens it for a day, after which it is deleted
   * @throws GatewayError DEPENDENCY_UNAVAILABLE when the store fails, UPSTREAM_ERROR for a result that is empty or too
   *         large; what the chunks threw
   */
  keep(chunks: AsyncIterable<Uint8Array>, options: KeepOptions): Promise<string>
  /**
   * Reads a result into memory, for an answer of which nothing may be kept.
   *
   * @throws GatewayError UPSTREAM_ERROR for a result that is empty or too large to be held; what the chunks threw
   */
  hold(chunks: AsyncIterable<Uint8Array>): Promise<HeldResult>
}

export interface HeldResult {
  readonly base64: string
  /** Gives its memory back. Idempotent. */
  readonly release: () => void
}

export interface KeepOptions {
  readonly workspace: string
  readonly mediaType: string
  readonly signal: AbortSignal
}
