import t from 'tap'
import { type TSchema, Type } from 'typebox'
import { GatewayError } from '../../../src/contracts/errors.ts'
import { readRequire, SELECTOR_FIELDS, typedFields } from '../../../src/gateway/api/fields.ts'
import { chatRequest, completeRequest, visionRequest } from '../../../src/gateway/api/native/chat.ts'
import { embeddingsRequest } from '../../../src/gateway/api/native/embeddings.ts'
import { imageRequest } from '../../../src/gateway/api/native/image.ts'
import { speechRequest } from '../../../src/gateway/api/native/speech.ts'
import { TRANSCRIPTION_FIELDS } from '../../../src/gateway/api/native/transcription-request.ts'
import { videoRequest } from '../../../src/gateway/api/native/video.ts'
import { FieldReader } from '../../../src/gateway/edge/form.ts'

const HELLO = [{ role: 'user', content: 'hello' }]
const PICTURE = { type: 'image_url', image_url: { url: 'https://example.com/a.png' } }

/** Each endpoint of JSON with a request that it takes. */
const REQUESTS = [
  [chatRequest, { messages: HELLO }],
  [completeRequest, { prompt: 'a' }],
  [embeddingsRequest, { input: 'a' }],
  [imageRequest, { prompt: 'a' }],
  [speechRequest, { input: 'a' }],
  [videoRequest, { prompt: 'a' }],
  [visionRequest, { messages: [{ role: 'user', content: [PICTURE] }] }],
] as const

/** Values that hardly any field takes. */
const WRONG = ['', 'no such value', 'x'.repeat(200_000), -1, 1.5, 1e300, true, [], [1], [''], {}, { a: 1 }]

/** The one style: the name, then what its value must be. */
const STYLE = /^`[a-z_.[\]0-9]+` must (?:not )?(?:be|have|hold|name|equal) /

function messageOf(act: () => unknown): { message: string; param: string | undefined } | null {
  try {
    act()
    return null
  } catch (thrown) {
    if (!(thrown instanceof GatewayError)) throw thrown
    return { message: thrown.message, param: thrown.extra.param }
  }
}

t.test('every field of every endpoint is refused in one style that names it', async (t) => {
  const faults: string[] = []
  let refused = 0
  const judge = (name: string, told: ReturnType<typeof messageOf>) => {
    if (told === null) return
    refused += 1
    const { message, param = '' } = told
    const named =
      message.startsWith(`\`${param}\``) && (param === name || /^[.[]/.test(param.slice(name.length)))
    if (!STYLE.test(message) || !named) faults.push(`${name}: ${param}: ${message}`)
  }
  for (const [request, fine] of REQUESTS) {
    const read = (body: object) => request.read(body, { headers: {} } as never)
    t.equal(
      messageOf(() => read(fine)),
      null,
      request.operation,
    )
    for (const name of Object.keys(request.schema.properties)) {
      for (const value of WRONG)
        judge(
          name,
          messageOf(() => read({ ...fine, [name]: value })),
        )
    }
    const [first = ''] = Object.keys(fine)
    judge(
      first,
      messageOf(() => read({})),
    )
    const misspelled = `${first.slice(0, 2)}${first.slice(3)}`
    const told = messageOf(() => read({ [misspelled]: 'a' }))
    // Vision takes one of two sets of fields, so that none is missing by itself.
    if (first.length > 4 && request !== visionRequest)
      t.match(told?.message, new RegExp(`\`${misspelled}\` may be meant`), misspelled)
  }
  // An object or a text, which no form tells apart: it is read as a whole.
  const { require, ...selectors } = SELECTOR_FIELDS
  for (const value of WRONG)
    judge(
      'require',
      messageOf(() => readRequire({ headers: {} }, value)),
    )
  t.ok(Type.IsOptional(require))
  const fields = { ...TRANSCRIPTION_FIELDS, ...selectors } as Readonly<Record<string, TSchema>>
  for (const [name, schema] of Object.entries(fields)) {
    const read = typedFields({ [name]: schema })
    for (const value of WRONG) {
      const json = new FieldReader({ kind: 'json', value: { [name]: value } })
      judge(
        name,
        messageOf(() => read(json, name)),
      )
      const form = new FieldReader({ kind: 'form', values: new Map([[name, [String(value)]]]) })
      judge(
        name,
        messageOf(() => read(form, name)),
      )
    }
    t.ok(Type.IsUnion(schema), name)
  }
  t.same([...new Set(faults)], [])
  t.ok(refused > 400, `${refused} were refused`)
})

t.test('the words of it', async (t) => {
  const read = typedFields(TRANSCRIPTION_FIELDS)
  const told = (name: 'timestamps' | 'redaction' | 'speaker_count_hint', value: unknown) =>
    messageOf(() => read(new FieldReader({ kind: 'json', value: { [name]: value } }), name))?.message
  t.equal(told('timestamps', 'words'), '`timestamps` must be one of `word`, `segment`, `both`')
  t.equal(told('speaker_count_hint', 33), '`speaker_count_hint` must be at most 32')
  t.equal(told('redaction', ['all']), '`redaction` must be one of `pii`, `phi`, `pci`, `numbers`')
})
