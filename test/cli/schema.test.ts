import { readFile } from 'node:fs/promises'
import { Ajv } from 'ajv'
import { load } from 'js-yaml'
import t from 'tap'
import { publishedSchema } from '../../src/cli/schema.ts'
import { buildSnapshot } from '../../src/gateway/catalog/snapshot.ts'
import { BentFile, SURROUNDINGS } from '../support/catalog-file.ts'
import { runInProcess } from '../support/cli.ts'

const FOLDER = new URL('../../scripts/deploy/config/', import.meta.url)
const read = (name: string) => readFile(new URL(name, FOLDER), 'utf8')

type Schema = Readonly<Record<string, unknown>>
const schema = JSON.parse(JSON.stringify(publishedSchema())) as Schema

// `patternErrorMessage` is a word of editors.
const ajv = new Ajv({ allErrors: true, keywords: ['patternErrorMessage'], formats: { regex: isRegex } })
const fits = ajv.compile(schema)

function isRegex(text: string): boolean {
  try {
    return new RegExp(text, 'u') instanceof RegExp
  } catch {
    return false
  }
}

t.test('what is committed is what is made, and what is printed', async (t) => {
  const { output, code, errors } = await runInProcess(['schema'])
  t.same({ code, errors }, { code: 0, errors: '' })
  t.same(JSON.parse(output), schema)
  t.equal(
    await read('larkway.schema.json'),
    output,
    'npx larkway schema > scripts/deploy/config/larkway.schema.json',
  )
  t.match(await runInProcess(['schema', 'x']), { code: 2, errors: 'larkway: unexpected argument "x"\n' })
})

t.test('the example names it, and fits it', async (t) => {
  const text = await read('larkway.yaml')
  t.match(text, /^# yaml-language-server: \$schema=\.\/larkway\.schema\.json\n/)
  t.ok(fits(load(text)), JSON.stringify(fits.errors))
})

t.test('every key says what it is', async (t) => {
  const undescribed = (value: unknown, path: string): string[] => {
    if (typeof value !== 'object' || value === null) return []
    const { properties = {}, description, $ref, ...rest } = value as Record<string, object>
    const below = Object.entries({ ...properties }).flatMap(([name, key]) => {
      const { description, $ref } = Object(key) as { description?: string; $ref?: string }
      const told = description ?? ($ref === undefined ? '' : shared($ref))
      return [...(told === '' ? [`${path}/${name}`] : []), ...undescribed(key, `${path}/${name}`)]
    })
    return [...below, ...Object.entries(rest).flatMap(([name, part]) => undescribed(part, `${path}/${name}`))]
  }
  const definitions = schema.definitions as Readonly<Record<string, { readonly description?: string }>>
  const shared = (ref: string) => definitions[ref.replace('#/definitions/', '')]?.description ?? ''
  t.same(undescribed(schema, ''), [])
})

/** What a file becomes by one change; whether it is then still right is for both to find out. */
const CHANGES: readonly (readonly [path: string, value: unknown])[] = [
  ['/audio_url_domains', []],
  ['/audio_url_domains', 'a.example.com'],
  ['/audio_url_domains/-', ''],
  ['/deadline_seconds', 60],
  ['/deadline_seconds', 0],
  ['/deadline_seconds', '60'],
  ['/deadline_second', 60],
  ['/limits', { max_audio_seconds: 60 }],
  ['/limits', { max_audio_seconds: null }],
  ['/limits', { max_audio_second: 60 }],
  ['/rate_limit', { burst: 1 }],
  ['/rate_limit', { burst: 0.5 }],
  ['/plans/pro/includes', []],
  ['/plans/pro/includes', ['text', 'text']],
  ['/plans/pro/includes', ['texts']],
  ['/plans/pro plan', { includes: [] }],
  ['/providers/openai/base_url', 'https://a.example/v1'],
  ['/providers/openai/kind', 'opnai'],
  ['/providers/openai/access', 'both'],
  ['/providers/openai/limits', { max_channels: 2, speed: { min: 0.5, max: 2 } }],
  ['/providers/openai/limits', { speed: { min: 0.5 } }],
  ['/providers/openai/limits', { voice_pattern: '^a$' }],
  ['/providers/openai/limits', { voice_pattern: '(' }],
  ['/providers/whisper/price', { per_hour_usd: 1, surcharges: { diarization: 0.2 } }],
  ['/providers/whisper/price', { per_hour_usd: 1, periods: [{ from: '2027-01-01', per_hour_usd: 2 }] }],
  ['/providers/whisper/price', { per_hour_usd: 1, periods: [{ from: 'tomorrow', per_hour_usd: 2 }] }],
  ['/providers/whisper/price', { per_hour_usd: 1, periods: [{ from: '2027-13-01', per_hour_usd: 2 }] }],
  [
    '/providers/whisper/price',
    { per_hour_usd: 1, tiers: [{ over_input_tokens: 1, per_1m_input_tokens_usd: 2 }] },
  ],
  ['/providers/whisper/price', { per_hour_usd: 1, tiers: [{ per_1m_input_tokens_usd: 2 }] }],
  ['/providers/whisper/price', { per_hour_usd: -1 }],
  ['/providers/whisper/price', { per_hour_usd: 1, surcharges: { redactions: 0.2 } }],
  ['/providers/whisper/capabilities', ['audio_input']],
  ['/providers/whisper/capabilities', 'audio_input'],
  ['/routes/voice/strategy', 'weighted'],
  ['/routes/voice/strategy', 'random'],
  ['/routes/voice/published', false],
  ['/routes/voice/published', 'no'],
  ['/routes/voice/entries', []],
  ['/routes/voice/entries/0/weight', 0.5],
  ['/routes/voice/entries/0/weight', 0],
  ['/routes/voice/entries/0/voices', { narrator: 'a' }],
  ['/routes/voice/entries/0/voices', { narrator: 1 }],
  ['/routes/voice/entries/0/model', ' large-v3'],
  ['/routes/voice/entries/0/profile', 'slow'],
  ['/routes/voice/entries/0/price', { per_hour_usd: 0.1 }],
  ['/routes/voice/entries/0/prices', { per_hour_usd: 0.1 }],
  ['/workspaces/acme/name', 'Acme'],
  ['/workspaces/acme/name', 1],
  ['/workspaces/acme/trial', { allowance_usd: 1, expires_at: '2027-01-31T00:00:00Z' }],
  ['/workspaces/acme/trial', { allowance_usd: 1, expires_at: 'tomorrow' }],
  ['/workspaces/acme/trial', { allowance_usd: 1 }],
  ['/workspaces/acme/budget_usd', { per_month: 10 }],
  ['/workspaces/acme/budget_usd', 10],
  ['/workspaces/acme/apps/web/capability_routes', { audio_out: 'voice' }],
  ['/workspaces/acme/purposes/dictation', null],
  ['/workspaces/acme/keys/0/id', 'web'],
  ['/workspaces/acme/keys/0/sha256', 'lk_live_x'],
  ['/workspaces/acme/keys/0/scopes', ['admin']],
  ['/workspaces/acme/keys/0/scopes', []],
  ['/workspaces/acme/keys/0/expires_at', '2027-01-31T00:00:00+01:00'],
  ['/workspaces/acme/keys/0/expires_at', '2027-01-31'],
]

t.test('it has the same opinion of a file as the check has', async (t) => {
  let refused = 0
  const judge = (file: BentFile, name: string) => {
    const reading = buildSnapshot(file.document, SURROUNDINGS)
    const issues = 'issues' in reading ? reading.issues : []
    t.equal(
      fits(file.document),
      issues.length === 0,
      `${name}: ${issues.join('; ')} ${ajv.errorsText(fits.errors)}`,
    )
    if (issues.length > 0) refused += 1
  }
  judge(new BentFile(), 'the example')
  for (const [path, value] of CHANGES)
    judge(new BentFile().set(path, value), `${path} ${JSON.stringify(value)}`)
  for (const path of [
    '/providers',
    '/routes',
    '/workspaces',
    '/plans/pro/includes',
    '/providers/openai/kind',
  ])
    judge(new BentFile().remove(path), `without ${path}`)
  t.ok(refused > 25 && refused < CHANGES.length - 10, `${refused} were refused`)
})
