import t from 'tap'
import { paragraphsView, sentencesView } from '../../../src/gateway/api/assemblyai/transcript.ts'
import { listenResponse } from '../../../src/gateway/api/deepgram/transcript.ts'
import { scribeResponse } from '../../../src/gateway/api/elevenlabs/transcript.ts'
import type { Heard } from '../../../src/gateway/api/heard.ts'
import { jsonText } from '../../../src/gateway/api/json-reply.ts'
import { CALLBACK_FORMS } from '../../../src/gateway/api/table.ts'
import { groupWords } from '../../../src/gateway/providers/segments.ts'
import { turnsWithin } from '../../support/loop-turns.ts'

/** An hour of talk. */
const MANY = 10_000
const FEW = 500
const RUNS = 3

const LISTEN = {
  ...{ utterances: true, uttSplit: 0.8, paragraphs: true, detectsLanguage: false, multichannel: false },
  ...{ tags: [], extra: {} },
}

/** Talk of two, in sentences of ten words. @param written what the text has instead of a word */
function talk(count: number, written = (word: string) => word): Heard {
  const words = Array.from({ length: count }, (_, index) => ({
    word: `word${index}${index % 10 === 9 ? '.' : ''}`,
    start: index * 0.4 + Math.floor(index / 20),
    end: index * 0.4 + Math.floor(index / 20) + 0.3,
    confidence: (index % 100) / 100,
    speaker: `speaker_${Math.floor(index / 40) % 2}`,
  }))
  return {
    ...{ requestId: 'req_1', provider: 'first', model: 'm', created: '2026-11-20T09:00:00.000Z' },
    ...{ durationSeconds: count, channels: 1, language: 'en', languageConfidence: 0.9, segments: [] },
    ...{ text: words.map(({ word }) => written(word)).join(' '), words },
  }
}

function keptOf({ text, words, ...heard }: Heard) {
  const { language, model } = heard
  return {
    ...{ id: 'req_1', provider: 'first', model, language, language_confidence: 0.9, duration_seconds: 60 },
    ...{ content: text, words, segments: [], warnings: [], usage: {}, cost_usd: null },
    ...{ lk_requested_purpose: null, lk_applied_purpose: null, lk_purpose_source: 'none' },
  }
}

/** Every answer that has the words of a transcript, once. */
const ANSWERS: Record<string, (heard: Heard) => object> = {
  deepgram: (heard) => listenResponse(heard, LISTEN),
  'deepgram, in one utterance': ({ words, ...heard }) => {
    const unnamed = words.map(({ speaker: _, ...word }) => word)
    return listenResponse({ ...heard, words: unnamed }, { ...LISTEN, uttSplit: 1_000, paragraphs: false })
  },
  elevenlabs: (heard) => scribeResponse(heard, { timed: true, channels: 'one' }),
  'assemblyai, sentences': (heard) => sentencesView('id', keptOf(heard)),
  'assemblyai, paragraphs': (heard) => paragraphsView('id', keptOf(heard)),
}

/** CPU milliseconds of the fastest of some runs: others that wait for a core count for nothing. */
async function fastest(work: () => unknown): Promise<number> {
  let least = Number.POSITIVE_INFINITY
  for (let run = 0; run < RUNS; run++) {
    const began = process.cpuUsage()
    await work()
    const { user, system } = process.cpuUsage(began)
    least = Math.min(least, (user + system) / 1000)
  }
  return least
}

for (const [name, answer] of Object.entries(ANSWERS)) {
  t.test(`${name}: many words are written in turns, in a time that grows with their number`, async (t) => {
    const [few, many] = [talk(FEW), talk(MANY)]
    await jsonText(answer(many))
    const fewMs = await fastest(async () => {
      for (let time = 0; time < MANY / FEW; time++) await jsonText(answer(few))
    })
    const manyMs = await fastest(() => jsonText(answer(many)))
    // As many words either way. Much memory is slower than little; what is quadratic takes twenty times as long.
    t.ok(manyMs < fewMs * 10, `${manyMs} ms against ${fewMs} ms`)
    let length = 0
    const { turns } = await turnsWithin(async () => {
      length = (await jsonText(answer(many))).length
    })
    t.ok(length > 500_000 && turns >= 1, `${turns} turns for ${length} characters`)
  })
}

t.test('callbacks are written in turns', async (t) => {
  const job = { id: 'tj', requestId: 'req_1', endedAtMs: 0, facts: null, keyId: 'key_1' } as never
  const result = JSON.stringify(keptOf(talk(MANY)))
  const views = { deepgram: LISTEN, elevenlabs: { timed: true, channels: 'one', metadata: null } }
  for (const door of ['deepgram', 'elevenlabs'] as const) {
    const { turns } = await turnsWithin(() => CALLBACK_FORMS.get(door)!.render(job, result, views[door]))
    t.ok(turns >= 1, `${door}: ${turns} turns`)
  }
})

t.test('words that the text lacks are not searched for again and again', async (t) => {
  const heard = talk(MANY)
  const same = { ...heard, words: heard.words.map((word) => ({ ...word, word: 'absent' })) }
  const write = (one: Heard) => jsonText(scribeResponse(one, { timed: true, channels: 'one' }))
  const [foundMs, missingMs] = [await fastest(() => write(heard)), await fastest(() => write(same))]
  t.ok(missingMs < foundMs * 4, `${missingMs} ms against ${foundMs} ms`)
})

t.test('one speaker may talk for days', async (t) => {
  const { words, text } = talk(200_000)
  const [group, ...others] = groupWords(words, text, () => false)
  t.same(others, [])
  t.equal(group?.segment.end, words.at(-1)?.end)
})
