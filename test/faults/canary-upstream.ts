import type { Teardown } from '../support/scratch.ts'
import type { ReceivedRequest, Script } from '../support/upstream/dialect.ts'
import { startUpstream } from '../support/upstream/upstream.ts'

/** What a provider does with whatever it is asked. */
export type Mood = 'good' | 'long' | 'slow' | 'hang' | 'cut' | 'garbage' | 'html' | 'policy' | number

/** What it says, each a canary or with one in it. */
export interface Sayings {
  /** In good answers. */
  readonly said: string
  readonly sound: Buffer
  /** In the bodies and headers of all others. */
  readonly complaint: string
  /** In headers of every answer. */
  readonly header: string
}

/** Several providers, of one mood each. */
export interface SingingUpstream {
  /** As `base_url`, by the name of the provider. */
  readonly url: (provider: string) => string
  set(provider: string, mood: Mood): void
  /** How many requests came to a provider. */
  asked(provider: string): number
}

const STEP_MS = 300
/** Makes a transcript too large to stand in the job object. */
const LONG_TIMES = 6_000

/** Starts providers that speak OpenAI's wire format in all operations. */
export async function startSingingUpstream(
  t: Teardown,
  providers: readonly string[],
  sayings: Sayings,
): Promise<SingingUpstream> {
  const moods = new Map<string, Mood>()
  const upstreams = new Map(
    await Promise.all(
      providers.map(async (provider) => {
        const script = (request: ReceivedRequest) => scriptOf(moods.get(provider) ?? 'good', request, sayings)
        return [provider, await startUpstream(t, { script })] as const
      }),
    ),
  )
  return {
    url: (provider) => upstreams.get(provider)?.url ?? '',
    set: (provider, mood) => void moods.set(provider, mood),
    asked: (provider) => upstreams.get(provider)?.received.length ?? 0,
  }
}

function scriptOf(mood: Mood, request: ReceivedRequest, { said, sound, complaint, header }: Sayings): Script {
  const headers = { 'x-request-id': header, 'set-cookie': `session=${header}`, 'openai-organization': header }
  const refusal = (status: number, error: object) => ({ headers, status, body: JSON.stringify({ error }) })
  if (mood === 'hang') return { fate: 'hang' }
  if (typeof mood === 'number') return refusal(mood, { message: complaint, code: complaint, type: complaint })
  if (mood === 'policy')
    return refusal(400, { message: complaint, code: 'content_policy_violation', param: complaint })
  if (mood === 'html') return { headers, contentType: 'text/html', body: `<h1>${complaint}</h1>` }
  if (mood === 'garbage') return { headers, body: `{"text": ${complaint}, "choices": [${complaint}` }
  if (mood === 'cut') return { headers, fate: 'cut', body: `{"text": "${complaint}` }
  const text = mood === 'long' ? said.repeat(LONG_TIMES) : said
  const isStreamed = request.body?.stream === true || request.fields.stream === 'true'
  return {
    headers,
    // A slow stream leaves time to leave between its chunks.
    ...(mood === 'slow' ? { waitMs: STEP_MS, chunkMs: STEP_MS } : {}),
    message: { content: text },
    // In chunks that are canaries each.
    deltas: isStreamed ? [said, said, said] : [text],
    ...(request.path.endsWith('/audio/speech') ? { contentType: 'audio/wav' } : {}),
    chunks: [sound],
    picture: sound,
    video: { bytes: sound },
  }
}
