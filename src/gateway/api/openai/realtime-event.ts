import { JsonAudioScanner } from '../../edge/json-audio.ts'
import { invalid } from '../../edge/refusals.ts'
import { checkMessageSize, parseObject } from '../socket-messages.ts'

/** OpenAI takes 15 MiB, for recordings; live audio comes in pieces. */
export const MESSAGE_BYTES_MAX = 1024 * 1024

/** An event of a client, and the audio that it brings. */
interface ClientEvent {
  readonly event: Record<string, unknown>
  readonly audio: Buffer | null
}

/**
 * Reads a message. The audio is found in its bytes and never becomes a value of JSON.
 *
 * @throws GatewayError INVALID_REQUEST, REQUEST_TOO_LARGE
 */
export function readClientEvent(message: Uint8Array): ClientEvent {
  checkMessageSize(message, MESSAGE_BYTES_MAX)
  const bytes = Buffer.from(message.buffer, message.byteOffset, message.length)
  return readAppend(bytes) ?? readAny(bytes)
}

const AUDIO_NAME = Buffer.from('"audio":')
const QUOTE = 0x22
const SPACE = 0x20

/**
 * Reads what libraries send: plain base64 in a member `audio` of the event itself. A name with its quotes and the colon
 * is in no string of JSON, where its quotes would be escaped.
 *
 * @returns null for what is to be looked at more closely, since it may be something else, or wrong
 */
function readAppend(bytes: Buffer): ClientEvent | null {
  const name = bytes.indexOf(AUDIO_NAME)
  if (name === -1) return null
  let start = name + AUDIO_NAME.length
  while (bytes[start] === SPACE) start += 1
  if (bytes[start] !== QUOTE) return null
  start += 1
  const end = bytes.indexOf(QUOTE, start)
  const length = end - start
  if (length <= 0 || length % 4 !== 0) return null
  const audio = Buffer.from(bytes.toString('latin1', start, end), 'base64')
  const padding = Number(bytes[end - 1] === PADDING) + Number(bytes[end - 2] === PADDING)
  // Characters that are not base64 are left out by the decoder.
  if (audio.length !== (length / 4) * 3 - padding) return null
  const event = parseObject(bytes.toString('utf8', 0, start) + bytes.toString('utf8', end))
  return event?.audio === '' ? { event, audio } : null
}

const PADDING = 0x3d

/** Reads any message as the body of a request is read, and says what is wrong with it. */
function readAny(bytes: Buffer): ClientEvent {
  const scanner = new JsonAudioScanner({ max_audio_bytes: MESSAGE_BYTES_MAX })
  scanner.scan(bytes)
  const { fields, source } = scanner.finish()
  if (fields.kind !== 'json') throw invalid('a message must be a JSON object')
  if (source.kind !== 'audio') return { event: fields.value, audio: null }
  const { offset, length, canonical } = source.audio
  const text = bytes.toString('latin1', offset, offset + length)
  const plain = canonical ? text : (JSON.parse(`"${text.replaceAll(/\s/g, '')}"`) as string)
  return { event: fields.value, audio: Buffer.from(plain, 'base64') }
}
