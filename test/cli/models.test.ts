import { chmod } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { listKnownModels } from '../../src/cli/models.ts'
import { endedModels, SHIPPED, staleness } from '../../src/gateway/providers/facts.ts'
import { larkway, runInProcess } from '../support/cli.ts'
import { startLarkway } from '../support/larkway.ts'

const WHISPER = {
  ...{ kind: 'openai', model: 'whisper-1', asOf: '2026-11-20', endsOn: '2027-02-26' },
  ...{ deprecatedOn: null, successor: null, note: null },
}

/** Output of the command on a day. */
function printed(day: string, ...args: string[]): string {
  let text = ''
  listKnownModels(args, (more) => (text += more), Date.parse(day))
  return text
}

/** A program in which it is that day, beside the environment that it needs. */
const onDay = (day: string) => {
  const shift = `Date.now=((now,by)=>()=>now()+by)(Date.now,${Date.parse(day)}-Date.now())`
  return { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(shift)}` }
}

t.test('what ends, and what was looked up long ago', async (t) => {
  const rows = [
    ['2026-11-21', []],
    ['2026-11-27', []],
    ['2026-11-28', ['ends on 2027-02-26, in 90 days']],
    ['2027-02-18', ['ends on 2027-02-26, in 8 days']],
    ['2027-02-19', ['ends on 2027-02-26, in 7 days', 'looked up 91 days ago']],
    ['2027-02-26T23:59:59Z', ['ends on 2027-02-26, in 0 days', 'looked up 98 days ago']],
    ['2027-02-27', ['ended on 2027-02-26', 'looked up 99 days ago']],
  ] as const
  for (const [day, expected] of rows) t.same(staleness(WHISPER, Date.parse(day)), expected, day)
  t.same(staleness({ ...WHISPER, endsOn: null }, Date.parse('2027-02-18')), [])
})

t.test('models --stale lists these and no others', async (t) => {
  const day = '2026-11-21'
  const listed = printed(day, '--stale').trim().split('\n').slice(1)
  const ending = SHIPPED.all().filter((model) => staleness(model, Date.parse(day)).length > 0)
  t.same(
    listed.map((line) => line.split(/ +/).slice(0, 2)),
    ending.map(({ kind, model }) => [kind, model]),
  )
  t.match(
    printed(day, '--stale', 'openai'),
    /^KIND +MODEL +AS OF +ENDS ON +WHY\nopenai +tts-1 .* in 46 days\n/,
  )
  t.notMatch(printed(day, '--stale'), /whisper-1/)
  t.match(printed('2026-12-01', '--stale'), /whisper-1 .* in 87 days/)
  t.equal(
    printed(day, '--stale', 'deepgram'),
    'No model ends within 90 days, and all were looked up within the last 90.\n',
  )
  const all = printed('2027-06-01', '--stale').trim().split('\n')
  t.equal(all.length, SHIPPED.all().length + 1, 'everything grows old')
  t.match(await runInProcess(['models', '--stael']), {
    code: 2,
    errors: "larkway: Unknown option '--stael'\n",
  })
})

t.test('models shows prices that change, and notes', async (t) => {
  t.match(
    printed('2026-11-21', 'gemini'),
    /gemini-3\.8-flash .* 0\.75\/1M in 3\.75\/1M out, from 2027-01-01 1\.5\/1M in 7\.5\/1M out /,
  )
  t.match(printed('2027-01-01', 'gemini'), /gemini-3\.8-flash .* 1\.5\/1M in 7\.5\/1M out +2026/)
  t.match(
    printed('2026-11-21', 'openai'),
    /gpt-6-sol .* 2\/1M in 10\/1M out 0\.2\/1M cached in, over 272000 tokens 4\/1M in .*, others for flex priority /,
  )
  t.match(printed('2026-11-21', 'groq'), /llama-3\.1-8b-instant .* shut down on 2026-08-16 for free/)
})

t.test('models shows what is kept of live audio, and its price', async (t) => {
  t.match(printed('2026-11-21', 'deepgram'), /FEATURES +LIVE +PRICE/)
  t.match(
    printed('2026-11-21', 'deepgram'),
    /nova-3 +audio_input +\S+ +word_timestamps,\S*multichannel +0\.462\/h 0\.12\/h with diarization /,
  )
  t.match(
    printed('2026-11-21', 'deepgram'),
    / 0\.552\/h with several languages, live 0\.348\/h .* 0\.288\/h with a named language /,
  )
  t.match(
    printed('2026-11-21', 'openai'),
    /gpt-live-transcribe +audio_input +- +keyterms +live 1\.02\/h +2026/,
  )
  t.match(printed('2026-11-21', 'openai'), /gpt-realtime-whisper +audio_input +- +text +live 1\.02\/h +2026/)
  t.match(printed('2026-11-21', 'openai'), /whisper-1 +audio_input +\S+ +- +0\.36\/h +2026/)
})

const KEY = `\${KEY}`
const CONFIG = {
  plans: { pro: { includes: ['audio_input', 'text'] } },
  providers: {
    openai: { kind: 'openai', api_key: KEY, access: 'byok', workspace: 'acme' },
    groq: { kind: 'groq', api_key: KEY, access: 'byok', workspace: 'acme' },
  },
  routes: {
    voice: {
      workspace: 'acme',
      entries: [
        { provider: 'openai', model: 'whisper-1' },
        { provider: 'openai', model: 'gpt-transcribe' },
        { provider: 'groq', model: 'llama-3.1-8b-instant' },
        { provider: 'openai', model: 'gpt-live-transcribe' },
      ],
    },
    other: { workspace: 'acme', entries: [{ provider: 'openai', model: 'whisper-1' }] },
  },
  workspaces: { acme: { plan: 'pro', apps: { web: { route: 'voice' } } } },
}

t.test('check says what has ended, ends soon, or is to be known of a model', async (t) => {
  const cwd = t.testdir({ 'larkway.yaml': JSON.stringify(CONFIG) })
  const on = async (day: string) => larkway(['check'], { cwd, env: { KEY: 'k', ...onDay(day) } })
  const now = await on('2026-11-21')
  t.equal(now.code, 0, now.errors)
  t.match(now.output, /\nMODEL +WHAT TO KNOW\ngroq\/llama-3\.1-8b-instant +shut down on 2026-08-16 for free/)
  t.notMatch(now.output, /whisper-1 +end/)
  t.match(now.output, /\nLIVE AUDIO +KEEPS\nopenai\/gpt-live-transcribe +keyterms\n/)
  t.match((await on('2027-01-01')).output, /\nopenai\/whisper-1 +ends on 2027-02-26, in 56 days\ngroq/)
  const after = await on('2027-02-27')
  t.match(after, {
    code: 1,
    output:
      /^larkway\.yaml has entries whose models have ended, .*\n {2}openai\/whisper-1 ended on 2027-02-26\n/,
  })
  t.match(
    after.output,
    new RegExp(`\\nWarning: the facts of models are \\d\\d+ days old \\(${SHIPPED.issuedAt.slice(0, 11)}`),
  )
  t.notMatch(after.output, /gpt-transcribe +\w+ed/)
})

t.test('check warns of routes that transcode where nothing can', async (t) => {
  const routes = { voice: { ...CONFIG.routes.voice, transcode: true } }
  const cwd = t.testdir({ 'larkway.yaml': JSON.stringify({ ...CONFIG, routes }), ffmpeg: '' })
  const on = async (path: string) =>
    (await larkway(['check'], { cwd, env: { KEY: 'k', PATH: path, ...onDay('2026-11-21') } })).output
  t.match(await on('/nowhere'), /\nWarning: voice transcodes, and there is no ffmpeg here\.\n/)
  await chmod(join(cwd, 'ffmpeg'), 0o755)
  t.notMatch(await on(cwd), /ffmpeg/)
})

t.test('check refuses what has ended and warns of what is deprecated, each with its successor', async (t) => {
  const entries = ['universal-3-pro', 'universal-3-5-pro', 'universal-2'].map((model) => ({
    provider: 'a',
    model,
  }))
  const config = {
    providers: { a: { kind: 'assemblyai', api_key: KEY, access: 'byok', workspace: 'acme' } },
    routes: { voice: { workspace: 'acme', entries } },
    workspaces: { acme: { apps: { web: { route: 'voice' } } } },
  }
  const cwd = t.testdir({ 'larkway.yaml': JSON.stringify(config) })
  const checked = await larkway(['check'], { cwd, env: { KEY: 'k', ...onDay('2026-11-25') } })
  t.equal(checked.code, 1)
  t.match(checked.output, /a\/universal-3-pro ended on 2026-09-02; its successor is assemblyai-stt-3-7\n/)
  t.match(
    checked.output,
    /a\/universal-3-5-pro +deprecated since 2026-11-17; its successor is assemblyai-stt-3-7\n/,
  )
  t.notMatch(checked.output, /universal-2 +(?:ended|deprecated)/)
  const node = await startLarkway(t, { config, env: { KEY: 'k', ...onDay('2026-11-25') } })
  const warned = node.log.filter(({ msg }) => /^models of entries/.test(`${msg}`)).map(({ models }) => models)
  t.same(warned, [
    ['a/universal-3-pro ended on 2026-09-02; its successor is assemblyai-stt-3-7'],
    ['a/universal-3-5-pro deprecated since 2026-11-17; its successor is assemblyai-stt-3-7'],
  ])
})

t.test('a node that starts warns in one line of entries whose models have ended', async (t) => {
  const warning = 'models of entries have ended, and calls to them fail'
  for (const [day, models] of [
    ['2027-02-26T12:00:00Z', []],
    ['2027-02-27T12:00:00Z', ['openai/whisper-1 ended on 2027-02-26']],
  ] as const) {
    const node = await startLarkway(t, { config: CONFIG, env: { KEY: 'k', ...onDay(day) } })
    const warned = node.log.filter(({ msg }) => msg === warning)
    t.same(
      warned.map((line) => line.models),
      models.length === 0 ? [] : [models],
      day,
    )
  }
})

t.test('a snapshot ends with its model', async (t) => {
  const entry = { provider: { name: 'o', kind: 'openai' }, model: 'gpt-4o-2024-11-20' }
  const routes = [{ entries: [entry, entry] }] as unknown as Parameters<typeof endedModels>[0]
  t.same(endedModels(routes, SHIPPED, Date.parse('2027-01-15')), [
    { name: 'o/gpt-4o-2024-11-20', remark: 'ended on 2027-01-14' },
  ])
})
