import { readFile, writeFile } from 'node:fs/promises'
import t from 'tap'
import { assertStopsClean } from '../support/gateway.ts'
import { type ModelEntry, startModelGateway } from '../support/model-gateway.ts'
import { doorOptions, optionTable } from '../support/openai-options.ts'

/** Writes the table of options anew, for whoever has changed one. */
const WRITES = process.env.LARKWAY_TEST_WRITE_EXAMPLES === '1'

t.test('the table of options is made of the schemas that requests are held to', async (t) => {
  const file = new URL('../../docs/moving-from-openai.md', import.meta.url)
  const table = /(?<=<!-- options -->\n\n)[\s\S]*?(?=\n\n<!-- \/options -->)/
  const text = await readFile(file, 'utf8')
  if (WRITES)
    await writeFile(
      file,
      text.replace(table, () => optionTable()),
    )
  t.equal(table.exec(await readFile(file, 'utf8'))?.[0], optionTable())
})

/** Where the client has its types of the options of each endpoint. */
const CLIENT_TYPES: Readonly<Record<string, readonly [file: string, name: string]>> = {
  'audio/transcriptions': ['audio/transcriptions', 'TranscriptionCreateParamsBase'],
  'audio/translations': ['audio/translations', 'TranslationCreateParams'],
  'audio/speech': ['audio/speech', 'SpeechCreateParams'],
  'chat/completions': ['chat/completions/completions', 'ChatCompletionCreateParamsBase'],
  responses: ['responses/responses', 'ResponseCreateParamsBase'],
  completions: ['completions', 'CompletionCreateParamsBase'],
  embeddings: ['embeddings', 'EmbeddingCreateParams'],
  'images/generations': ['images', 'ImageGenerateParamsBase'],
}

t.test('no option of the client is unknown at the door', async (t) => {
  t.same([...doorOptions().keys()].sort(), Object.keys(CLIENT_TYPES).sort())
  for (const [path, options] of doorOptions()) {
    const [file = '', name = ''] = CLIENT_TYPES[path] ?? []
    const url = new URL(`../../node_modules/openai/resources/${file}.d.ts`, import.meta.url)
    const types = await readFile(url, 'utf8')
    const [, body = ''] =
      new RegExp(`^export interface ${name}(?:<.*>)? \\{\\n([\\s\\S]*?)^\\}`, 'm').exec(types) ?? []
    const sent = [...body.matchAll(/^ {4}(\w+)\??:/gm)].map(([, option = '']) => option)
    t.ok(sent.length > 3, `${name} has options`)
    const known = new Set(
      Object.values(options)
        .flat()
        .map((option) => /^\w+/.exec(option)?.[0]),
    )
    // The file of a form is what `audio` is in JSON.
    const unknown = sent.filter((option) => !known.has(option) && option !== 'file')
    t.same(unknown, [], path)
  }
})

const ENTRY: ModelEntry = {
  model: 'all',
  capabilities: ['text', 'completion', 'function_calling', 'audio_output', 'embeddings', 'image'],
  price: {
    ...{ per_1m_input_tokens_usd: 1, per_1m_output_tokens_usd: 1, per_image_usd: 1 },
    per_1k_characters_usd: 1,
  },
}
const TOOL = { type: 'function', name: 'look' }

/** The smallest requests; those of audio files are no JSON to OpenAI's clients, and have tests of their own. */
const PLAIN: Readonly<Record<string, object>> = {
  'audio/speech': { input: 'a' },
  'chat/completions': { messages: [{ role: 'user', content: 'a' }] },
  responses: { input: 'a' },
  completions: { prompt: 'a' },
  embeddings: { input: 'a' },
  'images/generations': { prompt: 'a' },
}

/** Requests with a member of an option, by its path. */
const WITH: Readonly<Record<string, object>> = {
  'messages[].name': { messages: [{ role: 'user', content: 'a', name: 'ann' }] },
  'text.verbosity': { text: { verbosity: 'low' } },
  ...Object.fromEntries(
    ['output_schema', 'allowed_callers', 'defer_loading', 'async'].map((name) => [
      `tools[].${name}`,
      { tools: [{ ...TOOL, [name]: true }] },
    ]),
  ),
  'input_image.file_id': {
    input: [
      {
        role: 'user',
        content: [{ type: 'input_image', image_url: 'https://example.com/a.png', file_id: 'file_1' }],
      },
    ],
  },
  'item_reference.id': { input: [{ type: 'item_reference', id: 'msg_1' }] },
  prompt_cache_options: { prompt_cache_options: { mode: 'implicit' } },
}

t.test('each option has the fate that the table tells', async (t) => {
  const gateway = await startModelGateway(t, [ENTRY])
  const ask = async (path: string, more: object) => {
    const response = await gateway.post(`/openai/v1/${path}`, { model: 'any', ...PLAIN[path], ...more })
    const warnings: string[] = JSON.parse(response.headers.get('x-lk-warnings') ?? '[]')
    const text = await response.text()
    return { status: response.status, warnings, text }
  }
  const refusal = ({ text }: { text: string }) => JSON.parse(text).error
  for (const [path, { only, warned, refused }] of doorOptions()) {
    if (PLAIN[path] === undefined) continue
    t.match(await ask(path, {}), { status: 200 }, path)
    const plain = new Set((await ask(path, {})).warnings)
    const added = (warnings: readonly string[]) => warnings.filter((line) => !plain.has(line))
    for (const name of new Set(warned)) {
      const answer = await ask(path, WITH[name] ?? { [name]: 'x' })
      t.equal(answer.status, 200, `${path} ${name}`)
      const [line = '', ...others] = added(answer.warnings)
      t.ok(line.startsWith(`${name}: `), `${path} ${name}: ${line}`)
      t.same(others, [])
    }
    for (const name of refused) {
      const answer = await ask(path, WITH[name] ?? { [name]: 'x' })
      t.equal(answer.status, 400, `${path} ${name}`)
      const last = name.split('.').at(-1) ?? ''
      t.match(refusal(answer), { code: 'INVALID_REQUEST', param: new RegExp(`(?:^|\\.)${last}$`) }, name)
    }
    for (const option of only) {
      const [, name = '', value = ''] = /^(\w+): (.*)$/.exec(option) ?? []
      t.equal((await ask(path, { [name]: JSON.parse(value) })).status, 200, `${path} ${option}`)
      const answer = await ask(path, { [name]: ['x'] })
      t.equal(answer.status, 400, `${path} ${name} with another value`)
      t.match(refusal(answer), { code: 'INVALID_REQUEST', param: new RegExp(`^${name}\\b`) })
    }
  }
  await assertStopsClean(t, gateway)
})
