/** A delivery as it goes out. */
export interface WebhookMessage {
  /** Absent: POST. */
  readonly method?: 'POST' | 'PUT'
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>
  /** JSON. */
  readonly body: string
}

/** Outcome of one attempt, in our words: a reason never holds anything that the target sent. */
export type Posted =
  | {
      readonly kind: 'answered'
      readonly status: number
      /** Pause that its Retry-After asks for, in milliseconds; null without one. */
      readonly retryAfterMs: number | null
      /** The protocol of the delivery has no further attempt after this status. */
      readonly isFinal?: true
    }
  /** The event was not sent, and none will be sent to this URL: webhooks may not go to its address. */
  | { readonly kind: 'refused'; readonly reason: string }
  /** There was no answer; there may be one another time. */
  | { readonly kind: 'failed'; readonly reason: string }

/** Delivers a message once. Never rejects. */
export type PostWebhook = (url: string, message: WebhookMessage) => Promise<Posted>

/** Content of a signature. */
export interface Signable {
  /** `evt_…` or `cbk_…` */
  readonly id: string
  /** Time of the attempt, in Unix seconds. */
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
