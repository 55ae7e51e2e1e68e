import t from 'tap'
import { foreignPart, unknownPart, withoutForeign } from '../../../src/gateway/catalog/parts.ts'

t.test('what others have reads like what nobody has', (t) => {
  for (const kind of ['route', 'provider'] as const) {
    for (const name of ['voice', 'acme.voice-2_b', ' belongs to another workspace', '$&$1', '']) {
      const line = (fault: string) => `/routes/voice/entries/0: ${fault}`
      t.equal(withoutForeign(line(foreignPart(kind, name))), line(unknownPart(kind, name)))
      t.equal(withoutForeign(foreignPart(kind, name)), unknownPart(kind, name))
      t.equal(withoutForeign(unknownPart(kind, name)), unknownPart(kind, name))
    }
  }
  const other = '/routes/voice: must have another name: in the state, this one belongs to another workspace'
  t.equal(withoutForeign(other), other)
  t.end()
})
