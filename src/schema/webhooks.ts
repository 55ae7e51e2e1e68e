/** A delivery as it goes out. */
export interface WebhookMessage {
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>
  /** JSON. */
  readonly body: string
}

/** What became of one attempt, in our words: nothing that the target sent stands in a reason. */
export type Posted =
  | {
      readonly kind: 'answered'
      readonly status: number
      /** What its Retry-After asks for, milliseconds; null: nothing. */
      readonly retryAfterMs: number | null
    }
  /** Nothing was sent, and nothing will be to this URL: it leads to where webhooks do not go. */
  | { readonly kind: 'refused'; readonly reason: string }
  /** There was no answer; there may be one another time. */
  | { readonly kind: 'failed'; readonly reason: string }

/** Delivers a message once. Never rejects. */
export type PostWebhook = (url: string, message: WebhookMessage) => Promise<Posted>

/** What is signed. */
export interface Signable {
  /** `evt_…` */
  readonly id: string
  /** Of the attempt, Unix seconds. */
  readonly timestamp: number
  readonly body: string
  /** As they were shown, `whsec_…`, the newest first; at least one. */
  readonly secrets: readonly string[]
}

export interface Signatures {
  /** With the newest secret, lower-case hex. */
  readonly plain: string
  /** With each of the secrets: `v1,<base64>`, separated by spaces. */
  readonly standard: string
}

export interface WebhookSigner {
  sign(signable: Signable): Promise<Signatures>
}
