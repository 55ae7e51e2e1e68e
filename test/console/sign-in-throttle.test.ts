import t from 'tap'
import { SignInThrottle } from '../../src/console/server/security.ts'
import { VirtualClock } from '../support/virtual-clock.ts'

/** Wrong keys that come through from one caller after the other, until one is refused. */
function counted(wrongKeys: SignInThrottle, callers: Iterable<{ peer: string; forwarded?: string }>) {
  let passed = 0
  for (const { peer, forwarded } of callers) {
    const caller = { peer, headers: forwarded === undefined ? {} : { 'x-forwarded-for': forwarded } }
    const retryAfterMs = wrongKeys.waitMs(caller)
    if (retryAfterMs !== null) return { passed, retryAfterMs }
    passed += 1
    wrongKeys.note(caller)
  }
  return { passed, retryAfterMs: undefined }
}

function* times(count: number, caller: (index: number) => { peer: string; forwarded?: string }) {
  for (let index = 0; index < count; index++) yield caller(index)
}

t.test('an address has 10 wrong keys a minute', async (t) => {
  const clock = new VirtualClock()
  const wrongKeys = new SignInThrottle(clock)
  const one = () => ({ peer: '192.0.2.1' })
  t.same(counted(wrongKeys, times(5, one)), { passed: 5, retryAfterMs: undefined })
  await clock.advance(59_000)
  t.same(counted(wrongKeys, times(20, one)), { passed: 5, retryAfterMs: 1_000 })
  t.equal(
    counted(
      wrongKeys,
      times(3, () => ({ peer: '192.0.2.2' })),
    ).passed,
    3,
    'others have their own',
  )
  await clock.advance(1_000)
  t.equal(counted(wrongKeys, times(20, one)).passed, 10)
})

t.test(
  'behind a proxy it is the address that the proxy saw; made-up ones do not help for long',
  async (t) => {
    const proxied = (forwarded: string) => () => ({ peer: '10.0.0.1', forwarded })
    const wrongKeys = new SignInThrottle(new VirtualClock())
    t.equal(counted(wrongKeys, times(20, proxied('203.0.113.1'))).passed, 10)
    t.equal(counted(wrongKeys, times(20, proxied('203.0.113.2'))).passed, 10)
    t.equal(
      counted(wrongKeys, times(20, proxied('198.51.100.1, 203.0.113.2'))).passed,
      0,
      'the last one counts',
    )
    const madeUp = times(500, (index) => ({ peer: '10.0.0.1', forwarded: `a${index}` }))
    t.equal(counted(wrongKeys, madeUp).passed, 80, 'the peer has 100')
    t.equal(
      counted(
        wrongKeys,
        times(20, () => ({ peer: '10.0.0.1' })),
      ).passed,
      10,
      'who is at the proxy itself is another',
    )
  },
)

t.test('a household of IPv6 addresses is one', async (t) => {
  const wrongKeys = new SignInThrottle(new VirtualClock())
  const inOne = times(30, (index) => ({ peer: `2001:db8:1:2::${(index + 1).toString(16)}` }))
  t.equal(counted(wrongKeys, inOne).passed, 10)
  t.equal(
    counted(
      wrongKeys,
      times(1, () => ({ peer: '2001:0db8:0001:0002:0000:0000:0000:00ff' })),
    ).passed,
    0,
  )
  t.equal(
    counted(
      wrongKeys,
      times(1, () => ({ peer: '2001:db8:1:3::1' })),
    ).passed,
    1,
  )
  const mapped = (last: number) => ({
    peer: `0000:0000:0000:0000:0000:ffff:7f00:${String(last).padStart(4, '0')}`,
  })
  t.equal(counted(wrongKeys, times(30, mapped)).passed, 30, 'addresses of IPv4 in that form are not')
})

t.test('memory stays bounded', async (t) => {
  const clock = new VirtualClock()
  const wrongKeys = new SignInThrottle(clock)
  counted(
    wrongKeys,
    times(30_000, (index) => ({ peer: `192.0.2.${index}` })),
  )
  t.equal(wrongKeys.size, 10_000)
  await clock.advance(60_000)
  counted(
    wrongKeys,
    times(1, () => ({ peer: '192.0.2.1' })),
  )
  t.equal(wrongKeys.size, 1)
})
