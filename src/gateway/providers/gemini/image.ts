import type { ImageCall, ImageResult } from '../../../contracts/generation.ts'
import type { JsonObject } from '../../../contracts/json.ts'
import type { Operation, Step } from '../../../contracts/provider.ts'
import { failed, refused, unusable } from '../failure.ts'
import { asObject } from '../json.ts'
import { wholeEnding } from './answer.ts'
import { methodUrl, postJson } from './wire.ts'

/** Sizes that Gemini makes to the pixel; other shapes it rounds as it likes. */
const SIZES: ReadonlyMap<string, JsonObject> = new Map([
  ['1024x1024', { aspectRatio: '1:1', imageSize: '1K' }],
  ['2048x2048', { aspectRatio: '1:1', imageSize: '2K' }],
  ['4096x4096', { aspectRatio: '1:1', imageSize: '4K' }],
])

/** A picture by `generateContent`, https://ai.google.dev/gemini-api/docs/image-generation; one at a time. */
export const geminiImage: Operation<ImageCall, ImageResult> = {
  start(call, target): Step<ImageResult> {
    const imageConfig = call.size === null ? {} : SIZES.get(call.size)
    const issue = unsupportedOptions(call, imageConfig)
    if (issue !== null) return failed(refused(issue))
    const request = postJson(target, methodUrl(target, 'generateContent'), {
      contents: [{ role: 'user', parts: [{ text: call.prompt }] }],
      generationConfig: { responseModalities: ['IMAGE'], ...(call.size === null ? {} : { imageConfig }) },
    })
    return { kind: 'send', request, state: null }
  },
  next: (_state, reply) =>
    wholeEnding(reply, ({ parts, usage }) => {
      const images = parts.flatMap(({ inlineData }) => readInlineImage(asObject(inlineData) ?? {}))
      if (images.length === 0) return unusable(reply, 'the answer of the provider is no picture')
      return { result: { images, usage, warnings: [] } }
    }),
}

function unsupportedOptions({ n, quality, output_format: format }: ImageCall, shape: JsonObject | undefined) {
  if (n !== 1) return 'n: must be 1 for this provider'
  if (shape === undefined) return `size: must be one of ${[...SIZES.keys()].join(', ')} for this provider`
  if (quality !== null) return 'quality: must be left out for this provider'
  return format === null ? null : 'output_format: must be left out for this provider'
}

function readInlineImage({ mimeType, data }: JsonObject): ImageResult['images'][number][] {
  if (typeof data !== 'string' || data === '' || typeof mimeType !== 'string') return []
  if (!/^image\/[a-z0-9.+-]{1,64}$/i.test(mimeType)) return []
  return [{ base64: data, url: null, media_type: mimeType }]
}
