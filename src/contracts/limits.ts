/** The limits of the interface. `GET /v1/me` returns the ones in force; the configuration may change each. */
export interface Limits {
  /** Raw bytes of any request body. */
  readonly max_request_body_bytes: number
  /** Audio bytes after decoding, sent inline or as a file. */
  readonly max_audio_bytes: number
  readonly max_audio_url_bytes: number
  /** Bytes of all resumable uploads of a workspace that have not expired, by their declared lengths. */
  readonly max_upload_bytes_per_workspace: number
  /** Seconds of audio; null: no cap. */
  readonly max_audio_seconds: number | null
  readonly queue_max_payload_bytes: number
  readonly sync_idempotency_ttl_seconds: number
  readonly stt_job_result_ttl_seconds: number
  /** Longest live session. */
  readonly live_max_session_seconds: number
  /** How long a live session may last without audio. */
  readonly live_idle_seconds: number
  /** Audio that a live session keeps: what is not settled, and what could not be sent on yet. */
  readonly live_buffer_seconds: number
  readonly live_max_message_bytes: number
  /** Text of a live session that is not spoken yet. */
  readonly live_max_waiting_characters: number
  /** Live sessions open at once, over all nodes. */
  readonly live_max_sessions_per_key: number
  readonly live_max_sessions_per_workspace: number
}

export const DEFAULT_LIMITS: Limits = Object.freeze({
  max_request_body_bytes: 52_428_800,
  max_audio_bytes: 26_214_400,
  max_audio_url_bytes: 26_214_400,
  max_upload_bytes_per_workspace: 10_737_418_240,
  max_audio_seconds: null,
  queue_max_payload_bytes: 2_097_152,
  sync_idempotency_ttl_seconds: 86_400,
  stt_job_result_ttl_seconds: 259_200,
  live_max_session_seconds: 14_400,
  live_idle_seconds: 60,
  live_buffer_seconds: 30,
  live_max_message_bytes: 262_144,
  live_max_waiting_characters: 20_000,
  live_max_sessions_per_key: 1_000,
  live_max_sessions_per_workspace: 5_000,
})
