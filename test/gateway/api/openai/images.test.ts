import type { ImagesResponse } from 'openai/resources/images'
import t from 'tap'
import { imagesResponse } from '../../../../src/gateway/api/openai/images.ts'
import { onWire, outcome } from '../../../support/openai-door-outcome.ts'

const CREATED = 1_795_000_000
const CALL = { prompt: 'a', n: 2, size: null, quality: null, output_format: null, seed: null }
const IMAGES = [
  { base64: 'AAAA', url: null, media_type: 'image/png' },
  { base64: null, url: 'https://a.example.com/b.png', media_type: 'image/png' },
]
const RESULT = { images: IMAGES, usage: null, warnings: [] }
const DATA = [{ b64_json: 'AAAA' }, { url: 'https://a.example.com/b.png' }]

t.test('pictures are of the type that the client has for them', async (t) => {
  const told = { images: 2, input_tokens: 3, output_tokens: 4, total_tokens: 7 }
  const pictures: ImagesResponse = await onWire(imagesResponse(outcome(CALL, RESULT, told), CREATED))
  t.same(pictures, {
    created: CREATED,
    data: DATA,
    usage: {
      input_tokens: 3,
      output_tokens: 4,
      total_tokens: 7,
      input_tokens_details: { text_tokens: 3, image_tokens: 0 },
    },
  })
  const details = { text_tokens: 1, image_tokens: 2 }
  const made = { size: '1024x1024', quality: 'medium', output_format: 'png', background: 'opaque' } as const
  const known = { ...RESULT, made, inputDetails: details }
  const whole: ImagesResponse = await onWire(imagesResponse(outcome(CALL, known, told), CREATED))
  t.match(
    whole,
    { ...made, usage: { input_tokens: 3, input_tokens_details: details } },
    'as the provider says',
  )
  const untold = imagesResponse(outcome(CALL, RESULT, { images: 2, total_tokens: 0 }), CREATED)
  t.same(await onWire(untold), { created: CREATED, data: DATA }, 'tokens are told by some providers only')
})
