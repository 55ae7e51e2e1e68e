import { GatewayError } from '../errors.ts'

/**
 * What an endpoint has against its request, told to whoever has sent that request as a payload: `prompt` is
 * `payload.prompt` to them. What is not about a field stays as it is.
 */
export function inPayload(thrown: unknown): unknown {
  if (!(thrown instanceof GatewayError)) return thrown
  const { code, message, extra } = thrown
  const { param } = extra
  if (param === undefined && code !== 'INVALID_REQUEST') return thrown
  const named = param !== undefined && message.startsWith(`\`${param}\``)
  return new GatewayError(code, named ? `\`payload.${message.slice(1)}` : `payload: ${message}`, {
    ...extra,
    param: param === undefined ? 'payload' : `payload.${param}`,
  })
}
