import t from 'tap'
import type { LiveText } from '../../../src/console/page/views/playground/live-session.ts'
import { NO_TEXT, partialText, withMessage } from '../../../src/console/page/views/playground/live-session.ts'
import type { LiveMessage } from '../../../src/gateway/live/messages.ts'

const partial = (text: string, channel = 0): LiveMessage => ({
  ...{ type: 'partial', seq: 1, channel, start: 0, text },
})
const final = (text: string, channel = 0): LiveMessage => ({
  ...{ type: 'final', seq: 2, channel, segment: { id: 0, start: 0, end: 1, text }, settled_seconds: 1 },
})
const heard = (...messages: readonly LiveMessage[]): LiveText => messages.reduce(withMessage, NO_TEXT)
const said = ({ items }: LiveText) => items.map(({ text }) => text)

t.test('a partial is replaced, and gone after its final', async (t) => {
  t.equal(partialText(heard(partial('he'), partial('hello'))), 'hello')
  t.equal(partialText(heard(partial('hello'), partial(''))), '')
  const whole = heard(partial('hello'), partial('other', 1), final('Hello.'))
  t.same(said(whole), ['Hello.'])
  t.equal(partialText(whole), 'other', 'another channel continues')
})

t.test('changes of the provider and the end to come are where they came', async (t) => {
  const entry = (provider: string) => ({ provider, model: 'm' })
  const text = heard(
    final('one'),
    {
      ...{ type: 'switched', from: entry('a'), to: entry('b'), at_seconds: 2, warnings: [] },
      ...{ replayed_seconds: 1.25, lost_seconds: 0.5 },
    },
    final('two'),
    { type: 'going_away', seconds: 0, reason: 'operator' },
  )
  t.same(said(text), [
    'one',
    'Provider switched from a/m to b/m: 1.3 s of audio sent again, 0.5 s lost.',
    'two',
    'The session ends now: it was ended in the console.',
  ])
  t.same(
    text.items.map(({ kind }) => kind),
    ['said', 'notice', 'said', 'notice'],
  )
  t.equal(heard(partial('x'), { type: 'done' }).partials.size, 0)
})
