import { load } from 'js-yaml'
import type { SealContext } from '../../src/contracts/sealing.ts'
import { SHIPPED } from '../../src/gateway/providers/facts.ts'
import { PROVIDERS } from '../../src/gateway/providers/index.ts'

/** The documented example of a configuration, with the providers that there are. */
export const EXAMPLE = `
audio_url_domains: [cdn.example.com, "*.Media.example.com"]
plans:
  pro: { includes: [text, audio_input, audio_output, video_generation] }
providers:
  openai:   { kind: openai, api_key: "\${OPENAI_API_KEY}", access: byok, workspace: acme }
  whisper:
    { kind: openai-compatible, base_url: "http://10.0.0.5:8000/v1/", access: platform, price: {per_hour_usd: 0.05} }
routes:
  voice:
    workspace: acme
    strategy: priority
    entries: [ {provider: whisper, model: large-v3}, {provider: openai, model: gpt-transcribe} ]
  calls: { workspace: acme, entries: [ {provider: whisper, model: large-v3, purposes: [call-center]} ] }
workspaces:
  acme:
    plan: pro
    credits_usd: 100
    grant_id: initial
    purposes: { call-center: {description: Support calls, enabled: true}, dictation: {enabled: false} }
    apps:
      web: { route: voice, capability_routes: {audio_input: calls}, purposes: {call-center: calls} }
    keys:
      - id: key_web
        app: web
        sha256: "${'0a'.repeat(32)}"
        scopes: [inference, jobs, queue]
        rate_limit: {requests_per_minute: 60}
        budget_usd: {per_month: 50}
`

/** The outside as the example needs it: the real protocols and model table, one variable, no files. */
export const SURROUNDINGS = {
  kinds: PROVIDERS,
  models: SHIPPED,
  env: { OPENAI_API_KEY: 'sk-of-openai' } as Record<string, string | undefined>,
  readSecret(path: string): string {
    throw Object.assign(new Error(`no file ${path}`), { code: 'ENOENT' })
  },
  open: (_sealed: string, _context: SealContext): string | null => null,
}

/** A parsed configuration that a test bends in ways which no type would allow. Paths as in faults: `/routes/voice`. */
export class BentFile {
  readonly document: unknown = load(EXAMPLE)

  /** Sets the value at the path; a last part of `-` appends to a list. */
  set(path: string, value: unknown): this {
    const { holder, last } = this.#find(path)
    Reflect.set(holder, last === '-' ? Object.keys(holder).length : last, value)
    return this
  }

  remove(path: string): this {
    const { holder, last } = this.#find(path)
    Reflect.deleteProperty(holder, last)
    return this
  }

  get(path: string): unknown {
    const { holder, last } = this.#find(path)
    return Reflect.get(holder, last)
  }

  #find(path: string): { holder: object; last: string } {
    const parts = path.split('/').slice(1)
    const last = parts.pop() ?? ''
    const holder = parts.reduce<unknown>((value, part) => Reflect.get(Object(value), part), this.document)
    if (typeof holder !== 'object' || holder === null) throw new Error(`the example has nothing at ${path}`)
    return { holder, last }
  }
}
