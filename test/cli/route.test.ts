import { join } from 'node:path'
import t from 'tap'
import { hashKey, makeKey } from '../../src/gateway/catalog/key.ts'
import { runInProcess } from '../support/cli.ts'
import { secret } from '../support/route-gateway.ts'

const KEY = makeKey()

const FILE = {
  providers: {
    openai: { kind: 'openai', api_key: secret('OPENAI_API_KEY'), access: 'byok', workspace: 'acme' },
    eleven: { kind: 'elevenlabs', api_key: 'file:nowhere', access: 'platform' },
  },
  routes: {
    voice: {
      workspace: 'acme',
      entries: [
        { provider: 'openai', model: 'whisper-1' },
        { provider: 'eleven', model: 'scribe_v2' },
      ],
    },
  },
  workspaces: {
    acme: { apps: { web: { route: 'voice' } }, keys: [{ id: 'key_web', app: 'web', sha256: hashKey(KEY) }] },
  },
}

const cwd = t.testdir({
  'larkway.yaml': JSON.stringify(FILE),
  'later.yaml': JSON.stringify({
    ...FILE,
    routes: {
      voice: { workspace: 'acme', entries: [{ provider: 'eleven', model: 'scribe_v2', weight: 3 }] },
    },
  }),
})

const explain = (...args: string[]) =>
  runInProcess(['route', 'explain', '--key', 'key_web', ...args], { cwd })

t.test('explain tells who would serve and why the others would not, and needs no secret', async (t) => {
  const { code, output, errors } = await explain('--endpoint', 'transcription', '--feature', 'diarization')
  t.same({ code, errors }, { code: 0, errors: '' })
  t.equal(
    output,
    [
      'RANK  ENTRY             ROUTE  GROUP           WHY',
      '-     openai/whisper-1  voice  assigned_route  features: the model lacks diarization',
      '1     eleven/scribe_v2  voice  assigned_route  taken',
      '',
    ].join('\n'),
  )
})

t.test('features that a model keeps one by one only are told', async (t) => {
  const provider = { kind: 'sandbox', base_url: 'http://127.0.0.1:9/v1', access: 'byok', workspace: 'acme' }
  const entries = [{ provider: 'bench', model: 'morse-1' }]
  const folder = t.testdir({
    'larkway.yaml': JSON.stringify({
      ...FILE,
      providers: { bench: provider },
      routes: { voice: { workspace: 'acme', entries } },
    }),
  })
  const features = ['--feature', 'diarization', '--feature', 'word_timestamps']
  const args = ['route', 'explain', '--key', 'key_web', '--endpoint', 'transcription', ...features]
  const { code, output } = await runInProcess(args, { cwd: folder })
  t.equal(code, 1)
  t.match(output, /refused: REQUIRED_FEATURE_UNAVAILABLE/)
  t.match(output, /cannot combine word_timestamps and diarization/)
})

t.test('the key itself does as well as its id', async (t) => {
  const { code, output } = await runInProcess(
    ['route', 'explain', '--key', KEY, '--endpoint', 'transcription'],
    { cwd },
  )
  t.equal(code, 0)
  t.match(output, /^1 +openai\/whisper-1 .* taken\n2 +eleven\/scribe_v2 /m)
})

t.test('a request that would be refused ends with 1 and the refusal', async (t) => {
  const rows: readonly [args: string[], refusal: RegExp, why: RegExp][] = [
    [['--endpoint', 'speech'], /^refused: NO_HEALTHY_PROVIDER, /, /capability: the model lacks audio_output/],
    [
      ['--endpoint', 'transcription', '--feature', 'realtime'],
      /^refused: REQUIRED_FEATURE_UNAVAILABLE, /,
      /features: the model lacks realtime/,
    ],
    [
      [
        '--endpoint',
        'transcription',
        '--bytes',
        '900000000',
        '--seconds',
        '40000',
        '--feature',
        'word_timestamps',
      ],
      /^RANK/,
      /limits: the audio is over the provider's limit of 26214400 bytes/,
    ],
  ]
  for (const [args, refusal, why] of rows) {
    const { code, output } = await explain(...args)
    t.match(output, refusal)
    t.match(output, why)
    t.equal(code, output.startsWith('refused') ? 1 : 0)
  }
})

t.test('as JSON for other programs', async (t) => {
  const { output } = await explain('--endpoint', 'transcription', '--hint', 'prompt', '--json')
  t.match(JSON.parse(output), {
    refusal: null,
    entries: [
      { provider: 'openai', model: 'whisper-1', rank: 1, left: null },
      { provider: 'eleven', model: 'scribe_v2', rank: 2, left: null },
    ],
  })
})

t.test('what cannot be asked', async (t) => {
  const rows: readonly [args: string[], sentence: RegExp][] = [
    [['--endpoint', 'transkription'], /--endpoint must be one of transcription, translation, /],
    [['--endpoint', 'chat', '--feature', 'diarisation'], /--feature must be one of word_timestamps, /],
    [['--endpoint', 'chat', '--bytes', '-1'], /--bytes/],
    [['--endpoint', 'chat', '--seconds', 'long'], /--seconds must be a number above 0/],
    [
      ['--endpoint', 'chat', '--characters', '1000000000'],
      /--characters must be a whole number from 1 to 10000000\n/,
    ],
    [['--endpoint', 'embeddings', '--count', '1.5'], /--count must be a whole number from 1 to 100000\n/],
  ]
  for (const [args, sentence] of rows) {
    const { code, errors } = await explain(...args)
    t.equal(code, 2)
    t.match(errors, sentence)
  }
  const stranger = await runInProcess(['route', 'explain', '--key', makeKey(), '--endpoint', 'chat'], { cwd })
  t.match(stranger, { code: 2, errors: /the configuration has no such key/ })
  t.match(await runInProcess(['route', 'explain', '--help'], { cwd }), {
    code: 0,
    output: /--endpoint E +transcription/,
  })
})

t.test('diff tells what changed between two files', async (t) => {
  const { code, output } = await runInProcess(['route', 'diff', 'larkway.yaml', 'later.yaml'], { cwd })
  t.equal(code, 0)
  t.match(
    output,
    /^acme\/voice {2}pv_[0-9a-f]{16} → pv_[0-9a-f]{16}\n {2}entry 1 removed: openai\/whisper-1\n/,
  )
  t.match(
    output,
    /\n {2}entry 1 eleven\/scribe_v2 moved from 2\n {2}entry 1 eleven\/scribe_v2 weight: 1 → 3\n/,
  )
  const same = await runInProcess(['route', 'diff', 'larkway.yaml', join(cwd, 'larkway.yaml')], { cwd })
  t.same(same, { code: 0, output: 'The routes are the same.\n', errors: '' })
  t.match(await runInProcess(['route', 'diff', 'larkway.yaml', 'gone.yaml'], { cwd }), {
    code: 1,
    output: /cannot be read/,
  })
})
