/** The limits of the interface. `GET /v1/me` returns the ones in force; the configuration may change each. */
export interface Limits {
  /** Raw bytes of any request body. */
  readonly max_request_body_bytes: number
  /** Audio bytes after decoding, sent inline or as a file. */
  readonly max_audio_bytes: number
  readonly max_audio_url_bytes: number
  /** Seconds of audio; null: no cap. */
  readonly max_audio_seconds: number | null
  readonly queue_max_payload_bytes: number
  readonly sync_idempotency_ttl_seconds: number
  readonly stt_job_result_ttl_seconds: number
}

export const DEFAULT_LIMITS: Limits = Object.freeze({
  max_request_body_bytes: 52_428_800,
  max_audio_bytes: 26_214_400,
  max_audio_url_bytes: 26_214_400,
  max_audio_seconds: null,
  queue_max_payload_bytes: 2_097_152,
  sync_idempotency_ttl_seconds: 86_400,
  stt_job_result_ttl_seconds: 259_200,
})
