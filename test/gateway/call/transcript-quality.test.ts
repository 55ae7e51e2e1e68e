import t from 'tap'
import type { TranscriptionOptions, TranscriptionResult } from '../../../src/contracts/calls.ts'
import { Cancellation } from '../../../src/contracts/cancellation.ts'
import type { AcceptRule, AcceptRules } from '../../../src/contracts/catalog.ts'
import type { WatchedAttempt } from '../../../src/contracts/watch.ts'
import {
  brokenRules,
  largestRatio,
  mostRepeats,
  wordsOf,
} from '../../../src/gateway/call/attempt/transcript-quality.ts'
import { audio, options } from '../../support/call.ts'
import { entryAt, gatewayRig, refusalOf, runStreamed, runWhole, upstream } from '../../support/gateway-rig.ts'
import { memoryAudio } from '../../support/memory-audio.ts'
import { filledWav } from '../../support/wav.ts'

/** All rules, as an operator would set them for calls by telephone. */
const STRICT: AcceptRules = {
  repeats: 4,
  compression_ratio: 2.4,
  silence: true,
  language: true,
  words_per_second: { max: 7 },
  confidence: 0.4,
}

const SILENCE = memoryAudio(filledWav(44 + 5 * 32_000), 'identity')
/** A level that is on and off, 0.2 s each. */
const spoken = (seconds: number) => {
  const wav = filledWav(44 + seconds * 32_000, 0x40)
  return memoryAudio(
    wav.map((byte, at) => (at < 44 || Math.floor((at - 44) / 6400) % 2 === 0 ? byte : 0)),
    'identity',
  )
}
const SPOKEN = spoken(5)

const plain: TranscriptionResult = {
  text: '',
  language: null,
  languageConfidence: null,
  durationSeconds: null,
  segments: [],
  words: [],
  warnings: [],
}

interface Case {
  readonly of?: typeof SILENCE
  readonly seconds?: number | null
  readonly asked?: Partial<TranscriptionOptions>
  readonly result?: Partial<TranscriptionResult>
  readonly translated?: boolean
}

function judgeCase(
  text: string,
  rules: AcceptRules,
  { of = SPOKEN, seconds = 5, asked, result, translated = false }: Case,
) {
  const heard = {
    audio: { ...audio(), ...of.audio, durationSeconds: seconds },
    options: options(asked),
    result: { ...plain, text, ...result },
    translated,
  }
  return brokenRules(rules, heard, of.reader, new Cancellation())
}

t.test('what Whisper is known to say of silence and noise', async (t) => {
  const rows: [string, string, readonly AcceptRule[]][] = [
    ['Thank you for watching!', 'en', ['silence']],
    ['Thanks for watching, and please subscribe to my channel.', 'en', ['silence']],
    ['Subtitles by the Amara.org community', 'en', ['silence']],
    ['Subtitles by the Amara.org community', 'ru', ['language', 'silence']],
    ['Untertitel im Auftrag des ZDF für funk, 2017', 'de', ['silence']],
    ["Sous-titres réalisés par la communauté d'Amara.org", 'fr', ['silence']],
    ['Продолжение следует...', 'ru', ['silence']],
    ['Редактор субтитров А.Семкин Корректор А.Егорова', 'en', ['language', 'silence']],
    ['ご視聴ありがとうございました', 'ja', ['silence']],
    ['請不吝點贊 訂閱 轉發 打賞支持明鏡與點點欄目', 'zh', ['silence']],
    ['시청해주셔서 감사합니다', 'ko', ['silence']],
    ['you', 'en', ['silence']],
    ['Thank you. '.repeat(8), 'en', ['repeats', 'compression_ratio', 'silence']],
    [
      "I'm going to go to the next one. ".repeat(7),
      'en',
      ['words_per_second', 'repeats', 'compression_ratio', 'silence'],
    ],
    ['字幕'.repeat(16), 'zh', ['repeats', 'compression_ratio', 'silence']],
  ]
  for (const [text, language, broken] of rows)
    t.same(
      await judgeCase(text, STRICT, { of: SILENCE, asked: { language } }),
      broken,
      `${text.slice(0, 40)} (${language})`,
    )
})

t.test('what is right passes', async (t) => {
  const long = `We met at nine, as we do every Monday, and went through the list of what is open. The second delivery
    had come in late; Anna called the warehouse, who said that the lorry had been held up outside Hanover. Nobody was to
    blame. For the third point we looked at the figures of October, which are better than those of last year by a tenth,
    mostly because of the two large orders from Rotterdam, and agreed to ask the bank again in spring.`
  const rows: [string, Case][] = [
    ['', {}],
    ['', { of: SILENCE }],
    ['No, no, no, no. I said no.', { asked: { language: 'en' } }],
    [
      `${long} ${long.split(' ').reverse().join(' ')}`,
      { of: spoken(60), seconds: 60, asked: { language: 'en-GB' }, result: { language: 'en' } },
    ],
    ['Das Meeting mit Google und Microsoft ist am Freitag.', { asked: { language: 'de' } }],
    ['ユーチューブの動画を見ました', { asked: { language: 'ja' } }],
    ['Привет, я на YouTube канале', { asked: { language: 'ru' }, result: { language: 'ru' } }],
    ['Dobar dan svima', { asked: { language: 'sr' } }],
    ['Good morning everybody', { asked: { language: 'ru' }, translated: true }],
    ['Hello', { asked: { language: 'no such language' } }],
    ['well said', { result: { words: [{ word: 'well', start: 0, end: 1, confidence: 0.9 }] } }],
    ['a word', { seconds: null }],
  ]
  for (const [text, one] of rows) t.same(await judgeCase(text, STRICT, one), [], text.slice(0, 40))
})

t.test('each rule by itself', async (t) => {
  const said = (...confidences: number[]) =>
    confidences.map((confidence, id) => ({ id, word: 'a', text: 'a', start: 0, end: 1, confidence }))
  const rows: [AcceptRules, string, Case, boolean][] = [
    [{ confidence: 0.5 }, 'a b', { result: { words: said(0.9, 0.1) } }, false],
    [{ confidence: 0.51 }, 'a b', { result: { words: said(0.9, 0.1) } }, true],
    [{ confidence: 0.5 }, 'a b', { result: { segments: said(0.4) } }, true],
    [{ confidence: 0.5 }, 'a b', { result: { words: said(0.6), segments: said(0.4) } }, false],
    [{ confidence: 1 }, 'a b', {}, false],
    [{ words_per_second: { min: 0.5 } }, 'one two', { seconds: 4 }, false],
    [{ words_per_second: { min: 0.5 } }, 'one', { seconds: 4 }, true],
    [{ words_per_second: { min: 0.5 } }, 'one', { seconds: 2.9 }, false],
    [{ words_per_second: { max: 2 } }, 'one two three', { seconds: 1 }, true],
    [
      { words_per_second: { max: 2 } },
      'one two three',
      { seconds: null, result: { durationSeconds: 1 } },
      true,
    ],
    [{ language: true }, 'hello', { asked: { language: 'en' }, result: { language: 'de' } }, true],
    [{ language: true }, 'hello', { asked: { language: 'eng' }, result: { language: 'en' } }, false],
    [{ language: true }, 'hello', { result: { language: 'de' } }, false],
    [{ language: true }, 'good morning to you', { asked: { language: 'he' } }, true],
    [{ repeats: 2 }, 'a b a b', {}, false],
    [{ repeats: 2 }, 'a b a b a b', {}, true],
    [{ silence: true }, 'a word', { of: SILENCE }, true],
    [{ silence: true }, 'a word', {}, false],
    [{}, 'a '.repeat(500), { of: SILENCE, asked: { language: 'ru' } }, false],
  ]
  for (const [rules, text, one, isBroken] of rows) {
    const broken = await judgeCase(text, rules, one)
    t.same(
      broken,
      isBroken ? [Object.keys(rules)[0]] : [],
      `${JSON.stringify(rules)} of ${text.slice(0, 20)}`,
    )
  }
})

t.test('words, repeats and ratio', async (t) => {
  t.same(wordsOf("Don't 3 times, please – 字幕 ok"), ["don't", '3', 'times', 'please', '字', '幕', 'ok'])
  t.equal(mostRepeats([]), 0)
  t.equal(mostRepeats(['a']), 1)
  const rows: [string, number][] = [
    ['a b c a b c', 2],
    ['x a b c a b c a b c y', 3],
    ['a a a a', 4],
    ['a b b a', 2],
    [`${Array.from({ length: 24 }, (_, at) => `w${at}`).join(' ')} `.repeat(3), 3],
  ]
  for (const [text, times] of rows) t.equal(mostRepeats(wordsOf(text)), times, text.slice(0, 20))
  t.equal(await largestRatio(''), 0)
  const good = 'The quick brown fox jumps over the lazy dog, which does not mind at all. '
  t.ok((await largestRatio(good)) < 1.2)
  const loops = 'and then we go '.repeat(60)
  t.ok((await largestRatio(loops)) > 10)
  const hidden = await largestRatio(
    `${'All kinds of other words stand here, one by one. '.repeat(1)}${loops}`,
  )
  t.ok(hidden > 2.4, 'a loop behind other text')
})

t.test('a refused transcript is cured by another entry, counted in shadow, or the last resort', async (t) => {
  const says = (text: string) => upstream(t, (response) => void response.end(JSON.stringify({ text })))
  const [bad, good] = [await says('Thank you for watching!'), await says('')]
  const doubts: string[] = []
  const outcomes: string[] = []
  const metered: string[] = []
  const watch = {
    attempted: ({ outcome }: WatchedAttempt) => void outcomes.push(outcome),
    doubted: (...[{ model }, operation, rule, how]: [{ model: string }, string, AcceptRule, string]) =>
      void doubts.push(`${model} ${operation} ${rule} ${how}`),
    waited() {},
    metered: ({ model }: { model: string }) => void metered.push(model),
    charged() {},
  }
  const rig = (accepts: readonly (AcceptRules | null)[], origins: readonly string[]) => {
    const entries = origins.map((origin, at) =>
      entryAt(origin, { model: `m${at}`, accept: accepts[at] ?? null, retryEmpty: accepts[at] === null }),
    )
    const { services, request } = gatewayRig(t, { entries, reader: SILENCE.reader })
    const of = { ...audio(), ...SILENCE.audio, durationSeconds: 5 }
    return {
      services: { ...services, watch },
      call: () => request('transcription', { audio: of, options: options() }),
    }
  }
  const rules = { silence: true }

  const cured = rig([rules], [bad.origin, good.origin])
  for (let times = 0; times < 6; times += 1) {
    const call = cured.call()
    const answered = await runWhole(cured.services, call)
    t.equal(answered.result.text, '')
    t.match(call.context.routing.attempts, [
      { status: 200, reason: 'a transcript that breaks accept: silence' },
      { reason: 'ok' },
    ])
    answered.release()
  }
  t.equal(cured.services.budget.used, 0)
  t.match(
    doubts.splice(0),
    Array.from({ length: 6 }, () => 'm0 transcription silence refused'),
  )
  t.match(outcomes.splice(0, 2), ['server', 'ok'])

  const streamed = cured.call()
  const { deltas, outcome } = await runStreamed(cured.services, streamed)
  for await (const delta of deltas) t.equal(delta, '')
  t.equal(outcome().result.text, '', 'a streamed answer is judged before its first word')
  outcome().release()

  const refused = rig([rules, rules], [bad.origin, bad.origin])
  const error = await refusalOf(runWhole(refused.services, refused.call()))
  t.match(error, {
    code: 'UPSTREAM_ERROR',
    extra: { details: { attempts: [{ model: 'm0' }, { model: 'm1' }] } },
  })
  t.equal(refused.services.budget.used, 0)

  doubts.length = 0
  metered.length = 0
  for (const [how, accept] of [
    ['shadow', { ...rules, shadow: true }],
    ['last_resort', { ...rules, last_resort: true }],
  ] as const) {
    const one = rig([accept], [bad.origin])
    const { result, envelope, release } = await runWhole(one.services, one.call())
    t.equal(result.text, 'Thank you for watching!')
    const warnings = how === 'shadow' ? [] : ['a transcript that breaks accept: silence']
    t.same(envelope.warnings, warnings)
    t.same([metered.splice(0), doubts.splice(0)], [['m0'], [`m0 transcription silence ${how}`]])
    release()
  }
  const resort = { ...rules, last_resort: true }
  for (const [accept, { origin }, warning, how] of [
    [null, good, 'empty_transcript: the provider heard nothing', []],
    [resort, bad, 'a transcript that breaks accept: silence', ['m0 transcription silence last_resort']],
  ] as const)
    for (const status of [503, 400]) {
      const down = await upstream(t, (response) => void response.writeHead(status).end())
      const { services, call } = rig([accept], [origin, down.origin])
      const streams = call()
      const { deltas, outcome } = await runStreamed(services, streams)
      for await (const _ of deltas);
      const whole = call()
      for (const [{ context }, given] of [
        [streams, outcome()],
        [whole, await runWhole(services, whole)],
      ] as const) {
        t.match(given.envelope, { model: 'm0', cost_usd: 0.0005, warnings: [warning] })
        const answered = { model: 'm0', reason: 'ok', failure: null }
        t.match(context.routing.attempts, [{ model: 'm1', status }, answered], 'who answers stands last')
        given.release()
      }
      t.equal(services.budget.used, 0)
      t.same(
        [metered.splice(0), doubts.splice(0)],
        [
          ['m0', 'm0'],
          [...how, ...how],
        ],
      )
    }
  const better = rig([resort], [bad.origin, good.origin])
  const { result, release } = await runWhole(better.services, better.call())
  t.equal(result.text, '')
  release()
  t.same([better.services.budget.used, doubts], [0, ['m0 transcription silence refused']])
})
