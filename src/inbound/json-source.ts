import { declaredFilename, declaredMediaType } from './header-value.ts'
import { invalid, invalidField } from './refusals.ts'

/** The members of a JSON body that are about its audio, none of them checked yet. */
interface AudioMembers {
  audio?: unknown
  audio_base64?: unknown
}

/** What a JSON body says about its audio besides the audio itself. */
export interface JsonSource {
  readonly url: string | null
  readonly mediaType: string | null
  readonly filename: string | null
}

/**
 * Takes the documented members of `audio`, and `audio_base64`, out of a parsed body. Other members of
 * `audio` stay, for whoever refuses or reports them; an `audio` without any is removed. Null counts as
 * absent.
 *
 * @param body parsed, with null where an audio string stood; changed in place
 * @throws GatewayError INVALID_REQUEST when a member has the wrong type
 */
export function takeJsonSource(body: AudioMembers): JsonSource {
  const { audio = null, audio_base64: short = null } = body
  if (short !== null) throw invalid('`audio_base64` must be a string', 'audio')
  delete body.audio_base64
  if (audio !== null && !isObject(audio)) throw invalidField('audio', 'must be an object or a base64 string')
  if (audio === null) {
    delete body.audio
    return { url: null, mediaType: null, filename: null }
  }

  const { base64 = null, data = null, url = null, media_type: type = null, filename = null, ...rest } = audio
  if (base64 !== null || data !== null)
    throw invalid('`audio.base64` and `audio.data` must be strings', 'audio')
  if (url !== null && (typeof url !== 'string' || url === '')) {
    throw invalidField('audio.url', 'must be a string that is not empty')
  }
  const mediaType = typeof type === 'string' ? declaredMediaType(type) : null
  if (type !== null && mediaType === null) {
    throw invalidField('audio.media_type', 'must be a media type such as audio/wav')
  }
  if (filename !== null && typeof filename !== 'string') {
    throw invalidField('audio.filename', 'must be a string')
  }
  if (Object.keys(rest).length > 0) body.audio = rest
  else delete body.audio
  return { url, mediaType, filename: filename === null ? null : declaredFilename(filename) }
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
