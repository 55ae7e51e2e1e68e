import { type Static, Type } from 'typebox'
import { invalidField } from '../inbound/refusals.ts'
import type { ImageSource } from '../schema/chat.ts'

const DATA_URL = /^data:([^,;]*)(?:;[^,;]*)*;base64,/i
/** A data: URL names its type within so many characters; a picture's own URL is no longer than the rest. */
const DATA_PREFIX_LENGTH_MAX = 256
const URL_LENGTH_MAX = 8_192
const IMAGE_TYPE = /^image\/[a-z0-9][a-z0-9.+-]{0,63}$/

/** A picture as OpenAI's `image_url` has it. */
export const ImageUrl = Type.String({
  minLength: 1,
  description: 'an http or https URL, or the picture itself as data:image/…;base64,…',
})

/** A picture as `images` of vision has it. */
export const InlineImage = Type.Object(
  {
    base64: Type.String({ minLength: 1, description: 'the picture' }),
    media_type: Type.String({ minLength: 1, maxLength: 128, description: 'e.g. image/png' }),
  },
  { description: 'the picture itself' },
)

/**
 * Where a picture is, or the picture. Its base64 text is passed on as it came: looking at each character of
 * 20 MB would hold up the event loop for 90 ms, and the provider looks at them anyway.
 *
 * @param param what the 400 names
 */
export function imageFromUrl(url: string, param: string): ImageSource {
  if (/^data:/i.test(url)) return imageFromDataUrl(url, param)
  const parsed = url.length <= URL_LENGTH_MAX ? URL.parse(url) : null
  if (parsed === null || !/^https?:$/.test(parsed.protocol)) {
    throw invalidField(param, `must be an http or https URL of at most ${URL_LENGTH_MAX} characters`)
  }
  if (parsed.username !== '' || parsed.password !== '') {
    throw invalidField(param, 'must not hold a user name or a password')
  }
  return { kind: 'url', url: parsed.href }
}

export function imageFromBase64(
  { base64, media_type }: Static<typeof InlineImage>,
  param: string,
): ImageSource {
  return { kind: 'base64', media_type: imageType(media_type, `${param}.media_type`), base64 }
}

function imageFromDataUrl(url: string, param: string): ImageSource {
  const [prefix, mediaType] = DATA_URL.exec(url.slice(0, DATA_PREFIX_LENGTH_MAX)) ?? []
  if (prefix === undefined || mediaType === undefined) {
    throw invalidField(param, 'must be a data: URL of the form data:image/png;base64,<base64>')
  }
  const base64 = url.slice(prefix.length)
  if (base64 === '') throw invalidField(param, 'must hold a picture that is not empty')
  return { kind: 'base64', media_type: imageType(mediaType, param), base64 }
}

function imageType(text: string, param: string): string {
  const mediaType = text.trim().toLowerCase()
  if (!IMAGE_TYPE.test(mediaType)) throw invalidField(param, 'must have a media type of image/…')
  return mediaType
}
