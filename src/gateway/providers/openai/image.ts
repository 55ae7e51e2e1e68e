import { extraValue } from '../../../contracts/extras.ts'
import { IMAGE_WORDS, type ImageCall, type ImageResult } from '../../../contracts/generation.ts'
import type { JsonObject } from '../../../contracts/json.ts'
import type { Operation } from '../../../contracts/provider.ts'
import { readEnding } from '../answer.ts'
import { unusable } from '../failure.ts'
import { asObject, objectsIn } from '../json.ts'
import { quantityOf } from '../numbers.ts'
import { type ExtraHeaders, jsonRequest, readUsage } from './wire.ts'

/** How the base64 of a picture begins, by what it is. */
const BEGINNINGS: readonly (readonly [beginning: string, mediaType: string])[] = [
  ['iVBORw0KGgo', 'image/png'],
  ['/9j/', 'image/jpeg'],
  ['UklGR', 'image/webp'],
  ['R0lGOD', 'image/gif'],
]

/**
 * `POST /images/generations`, https://platform.openai.com/docs/api-reference/images/create
 *
 * @param older whether `response_format: b64_json` is sent: OpenAI's own models always answer so and refuse
 * the field, other servers keep the habit of the older models and would answer with an address of their own.
 */
export function imageOperation(older: boolean, extra: ExtraHeaders): Operation<ImageCall, ImageResult> {
  return {
    takesExtra: ({ name }) => older || (name !== 'response_format' && name !== 'style'),
    start({ prompt, n, size, quality, output_format: format, extras = [] }, target) {
      const body = {
        model: target.model,
        prompt,
        n,
        ...(size === null ? {} : { size }),
        ...(quality === null ? {} : { quality }),
        ...(format === null ? {} : { output_format: format }),
        ...(older ? { response_format: 'b64_json' } : {}),
        ...Object.fromEntries(extras.map(({ name, value }) => [name, value])),
      }
      return { kind: 'send', request: jsonRequest(target, '/images/generations', body, extra), state: null }
    },
    next: (_state, reply, call) =>
      readEnding(reply, (body) => {
        const { n, output_format: asked } = call
        const images = objectsIn(body.data).flatMap((item) => readImage(item, body, asked))
        if (images.length === 0) return unusable(reply, 'the answer of the provider has no picture')
        if (extraValue(call, 'response_format') === 'url' && images.some(({ url }) => url === null))
          return unusable(reply, 'the answer lacks the URL that was asked for')
        const warnings = images.length < n ? [`n: ${images.length} of ${n} pictures were made`] : []
        return {
          result: { images, usage: readUsage(body), ...readMade(body), ...readDetails(body), warnings },
        }
      }),
  }
}

/** How they were made, in words that are known: nothing else of the provider's becomes part of an answer. */
function readMade({ size, quality, output_format, background }: JsonObject): Pick<ImageResult, 'made'> {
  const made = {
    ...(typeof size === 'string' && /^\d{2,5}x\d{2,5}$/.test(size) ? { size } : {}),
    ...known('quality', quality),
    ...known('output_format', output_format),
    ...known('background', background),
  }
  return Object.keys(made).length === 0 ? {} : { made }
}

function known<Name extends keyof typeof IMAGE_WORDS>(
  name: Name,
  given: unknown,
): { readonly [Key in Name]?: (typeof IMAGE_WORDS)[Name][number] } {
  const word = IMAGE_WORDS[name].find((one) => one === given)
  return (word === undefined ? {} : { [name]: word }) as {
    [Key in Name]?: (typeof IMAGE_WORDS)[Name][number]
  }
}

function readDetails({ usage }: JsonObject): Pick<ImageResult, 'inputDetails'> {
  const details = asObject(asObject(usage)?.input_tokens_details)
  const [text, image] = [quantityOf(details?.text_tokens), quantityOf(details?.image_tokens)]
  return text === null || image === null ? {} : { inputDetails: { text_tokens: text, image_tokens: image } }
}

function readImage(
  { b64_json: base64, url }: JsonObject,
  { output_format: said }: JsonObject,
  asked: string | null,
): ImageResult['images'][number][] {
  const format = typeof said === 'string' ? said : asked
  const named = format !== null && /^[a-z0-9]{1,16}$/.test(format) ? `image/${format}` : 'image/png'
  if (typeof base64 === 'string' && base64 !== '') {
    return [{ base64, url: null, media_type: imageMediaType(base64) ?? named }]
  }
  const fetchable = typeof url === 'string' && /^https?:\/\//.test(url)
  return fetchable ? [{ base64: null, url, media_type: named }] : []
}

/** Detects a picture's media type from its first bytes, which can be trusted. */
function imageMediaType(base64: string): string | null {
  return BEGINNINGS.find(([beginning]) => base64.startsWith(beginning))?.[1] ?? null
}
