import type { ImageCall, ImageResult } from '../../schema/generation.ts'
import type { JsonObject } from '../../schema/json.ts'
import type { Operation, Step } from '../../schema/provider.ts'
import { refused, unusable } from '../failure.ts'
import { asObject } from '../json.ts'
import { wholeAnswer } from './answer.ts'
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
    const fault = faultOf(call, imageConfig)
    if (fault !== null) return { kind: 'failed', failure: refused(fault) }
    const request = postJson(target, methodUrl(target, 'generateContent'), {
      contents: [{ role: 'user', parts: [{ text: call.prompt }] }],
      generationConfig: {
        responseModalities: ['IMAGE'],
        ...(call.size === null ? {} : { imageConfig }),
      },
    })
    return { kind: 'send', request, state: null }
  },
  next(_state, reply) {
    const whole = wholeAnswer(reply)
    if ('failure' in whole) return { kind: 'failed', failure: whole.failure }
    const { parts, usage } = whole.answer
    const images = parts.flatMap(({ inlineData }) => readImage(asObject(inlineData) ?? {}))
    if (images.length === 0) {
      return { kind: 'failed', failure: unusable(reply, 'the answer of the provider is no picture') }
    }
    return { kind: 'done', result: { images, usage, warnings: [] } }
  },
}

function faultOf({ n, quality, output_format: format }: ImageCall, shape: JsonObject | undefined) {
  if (n !== 1) return 'n: the provider makes one picture at a time'
  if (shape === undefined) return `size: the provider makes ${[...SIZES.keys()].join(', ')}`
  if (quality !== null) return 'quality: the provider has one only'
  return format === null ? null : 'output_format: the provider chooses it'
}

function readImage({ mimeType, data }: JsonObject): ImageResult['images'][number][] {
  if (typeof data !== 'string' || data === '' || typeof mimeType !== 'string') return []
  if (!/^image\/[a-z0-9.+-]{1,64}$/i.test(mimeType)) return []
  return [{ base64: data, url: null, media_type: mimeType }]
}
