import { type Answer, type CallBody, first, json, memberOf, Refusal } from './http.ts'

import { modelFor } from './models.ts'
import { drawMorse } from './picture.ts'

const DEFAULT_SIZE = '1024x1024'
const SIDE_MAX = 2048
const IMAGES_MAX = 10

/**
 * `POST /v1/images/generations`: the prompt as Morse code in black and white.
 *
 * @throws Refusal
 */
export function images(body: CallBody): Answer {
  modelFor('images', body)
  const prompt = first(body, 'prompt') ?? ''
  const n = memberOf(body.json, 'n') ?? 1
  if (typeof n !== 'number' || !Number.isInteger(n) || n < 1 || n > IMAGES_MAX)
    throw new Refusal(400, `n takes 1 to ${IMAGES_MAX}`, { param: 'n' })
  const size = imageSize(body, DEFAULT_SIZE, SIDE_MAX)
  if ((first(body, 'output_format') ?? 'png') !== 'png')
    throw new Refusal(400, 'output_format takes png', { param: 'output_format', code: 'invalid_value' })
  const picture = drawMorse(prompt, size.width, size.height)
  if (picture === null)
    throw new Refusal(400, 'prompt: nothing that fits can be said of it in Morse code', { param: 'prompt' })
  const data = Array.from({ length: n }, () => ({ b64_json: picture.toString('base64') }))
  const input_tokens = Math.ceil(prompt.length / 4)
  const usage = { input_tokens, output_tokens: n, total_tokens: input_tokens + n }
  return json(200, {
    created: 1_795_000_000,
    output_format: 'png',
    size: `${size.width}x${size.height}`,
    data,
    usage,
  })
}

/**
 * `size`, `<width>x<height>`; `auto` is the default.
 *
 * @throws Refusal
 */
export function imageSize(body: CallBody, fallback: string, most: number): { width: number; height: number } {
  const given = first(body, 'size') ?? fallback
  const [, width = '', height = ''] = /^(\d{1,4})x(\d{1,4})$/.exec(given === 'auto' ? fallback : given) ?? []
  const size = { width: Number(width), height: Number(height) }
  const fits = (side: number) => side >= 16 && side <= most
  if (fits(size.width) && fits(size.height)) return size
  throw new Refusal(400, `size takes <width>x<height>, 16 to ${most} each`, {
    param: 'size',
    code: 'invalid_value',
  })
}
