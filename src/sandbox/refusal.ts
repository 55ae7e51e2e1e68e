/** What OpenAI answers when it refuses: `{"error": {message, type, param, code}}`. */
export class Refusal extends Error {
  override readonly name = 'Refusal'
  readonly status: number
  readonly param: string | null
  readonly code: string | null

  constructor(
    status: number,
    message: string,
    { param = null, code = null }: { param?: string | null; code?: string | null } = {},
  ) {
    super(message)
    this.status = status
    this.param = param
    this.code = code
  }

  /** The answer's body. */
  get body() {
    const { message, param, code } = this
    return { error: { message, type: typeOf(this), param, code } }
  }
}

function typeOf({ status, code }: Refusal): string {
  if (code === 'insufficient_quota') return 'insufficient_quota'
  if (status === 429) return 'requests'
  return status >= 500 ? 'server_error' : 'invalid_request_error'
}
