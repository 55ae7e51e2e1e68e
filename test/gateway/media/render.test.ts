import t from 'tap'
import type { Segment } from '../../../src/contracts/calls.ts'
import { renderTranscript } from '../../../src/gateway/media/render.ts'

const segment = (start: number, end: number, text: string, more: Partial<Segment> = {}): Segment => ({
  id: 0,
  start,
  end,
  text,
  ...more,
})

const srt = (...segments: Segment[]) => renderTranscript('srt', { text: '', segments }).body
const vtt = (...segments: Segment[]) => renderTranscript('vtt', { text: '', segments }).body

t.test('text is the text, byte for byte', async (t) => {
  const text = ' a < b --> c\r\n\n& d '
  t.same(renderTranscript('text', { text, segments: [segment(0, 1, 'other')] }), {
    body: text,
    contentType: 'text/plain; charset=utf-8',
  })
})

t.test('SubRip', async (t) => {
  const { body, contentType } = renderTranscript('srt', {
    text: 'not used',
    segments: [segment(0, 1.5, 'Hello there.'), segment(1.5, 3661.0004, ' General greeting. ')],
  })
  t.equal(contentType, 'application/x-subrip; charset=utf-8')
  t.equal(
    body,
    '1\n00:00:00,000 --> 00:00:01,500\nHello there.\n\n2\n00:00:01,500 --> 01:01:01,000\nGeneral greeting.\n',
  )
})

t.test('WebVTT', async (t) => {
  const { body, contentType } = renderTranscript('vtt', {
    text: 'not used',
    segments: [segment(0, 1.5, 'Hello there.'), segment(1.5, 360_000, 'Far out.')],
  })
  t.equal(contentType, 'text/vtt; charset=utf-8')
  t.equal(
    body,
    'WEBVTT\n\n00:00:00.000 --> 00:00:01.500\nHello there.\n\n00:00:01.500 --> 100:00:00.000\nFar out.\n',
  )
})

t.test('nothing said', async (t) => {
  t.equal(srt(), '')
  t.equal(vtt(), 'WEBVTT\n')
  t.equal(srt(segment(0, 1, ' \n ')), '', 'a cue without text is none')
  t.equal(vtt(segment(0, 1, '')), 'WEBVTT\n')
})

t.test('speakers, where there are any', async (t) => {
  const spoken = segment(0, 1, 'Yes.\nNo.', { speaker: 'speaker_0' })
  t.match(srt(spoken), '\nspeaker_0: Yes.\nNo.\n')
  t.match(vtt(spoken), '\n<v speaker_0>Yes.\nNo.\n')
  t.match(vtt(segment(0, 1, 'Yes.', { speaker: 'a>b\n&\nc' })), '\n<v a&gt;b &amp; c>Yes.\n')
  t.match(srt(segment(0, 1, 'Yes.', { speaker: ' ' })), '\nYes.\n')
})

t.test('no text ends a cue, makes one, or is taken for markup', async (t) => {
  const trick = 'one\n\n2\r\n00:00:01,000 --> 00:00:02,000\r\rtwo\u2028\u0085\v\fthree\0four <i>&amp;'
  const lines = ['one', '2', '00:00:01,000 -> 00:00:02,000', 'two', 'three', 'four <i>&amp;']
  t.equal(srt(segment(0, 1, trick)), `1\n00:00:00,000 --> 00:00:01,000\n${lines.join('\n')}\n`)

  const [, cue, ...others] = vtt(segment(0, 1, trick)).split('\n\n')
  t.same(others, [])
  const escaped = ['one', '2', '00:00:01,000 --&gt; 00:00:02,000', 'two', 'three', 'four &lt;i&gt;&amp;amp;']
  t.equal(cue, `00:00:00.000 --> 00:00:01.000\n${escaped.join('\n')}\n`)
  t.match(srt(segment(0, 1, 'tab\tbed')), '\ntab bed\n')
  t.equal(srt(segment(0, 1, 'a ----> b')), '1\n00:00:00,000 --> 00:00:01,000\na -> b\n')
  t.notMatch(srt(segment(0, 1, 'x', { speaker: '-->' })), /-->.*-->/s, 'nor a speaker')
})

t.test('times: ordered, never negative, never empty, rounded once', async (t) => {
  const body = vtt(
    segment(5, 4, 'ends before it begins'),
    segment(2, 3, 'earlier'),
    segment(2, 9, 'same time, second'),
    segment(-1, Number.NaN, 'no times'),
    segment(59.9996, Number.POSITIVE_INFINITY, 'rounds up'),
  )
  t.same(body.match(/.* --> .*\n.*/g), [
    '00:00:00.000 --> 00:00:00.001\nno times',
    '00:00:02.000 --> 00:00:03.000\nearlier',
    '00:00:02.000 --> 00:00:09.000\nsame time, second',
    '00:00:05.000 --> 00:00:05.001\nends before it begins',
    '00:01:00.000 --> 00:01:00.001\nrounds up',
  ])
  t.match(srt(segment(2, 3, 'b'), segment(1, 2, 'a')), /^1\n00:00:01,000.*\na\n\n2\n00:00:02,000.*\nb\n$/s)
})
