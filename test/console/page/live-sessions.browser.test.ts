import t from 'tap'
import { WebSocket } from 'ws'
import { openBrowser } from '../../support/browser.ts'
import { startConsoleNode } from '../../support/console-node.ts'
import { liveAudio } from '../../support/live-audio.ts'
import { LiveClient } from '../../support/live-rig.ts'
import { axeFaults, faintTexts, overflowOf } from '../../support/page-checks.ts'
import { withoutServers } from '../../support/servers.ts'
import { openPerson } from '../console-person.ts'

t.test('a live session is watched and ended', { skip: withoutServers, timeout: 120_000 }, async (t) => {
  const node = await startConsoleNode(t)
  const person = await openPerson(await openBrowser(t), node.url)
  const { page, complaints } = person
  await person.signIn(node.keys.admin)
  await person.go('Live')
  await page.getByText('No open sessions').waitFor()

  const { pcm, sampleRate } = liveAudio('lark sees a lark')
  const url = `${node.url.replace('http', 'ws')}/v1/transcription/stream?sample_rate=${sampleRate}`
  const headers = { authorization: `Bearer ${node.keys.app}` }
  const caller = new LiveClient(t, new WebSocket(url, 'larkway.v1', { headers }))
  await caller.message('ready')
  await caller.speak(pcm, 4)
  const row = person.row('Live sessions', 'acme-own/morse-1')
  await row.getByText('0:06').waitFor()
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' })
    t.same(await axeFaults(page), [], `axe, ${colorScheme}`)
    t.same(await faintTexts(page), [], `texts can be read, ${colorScheme}`)
  }
  await page.setViewportSize({ width: 375, height: 812 })
  t.equal(await overflowOf(page), 0, 'a phone shows all of it')

  await row.getByRole('button', { name: 'End the session of app' }).focus()
  await page.keyboard.press('Enter')
  const dialog = person.dialog('End the session of app?')
  await dialog.waitFor()
  t.same(await axeFaults(page), [], 'axe, the dialog')
  await dialog.getByRole('button', { name: 'End session' }).click()
  t.match(await caller.message('going_away'), { reason: 'operator' })
  await page.getByText('No open sessions').waitFor()
  t.same([complaints.said, complaints.failed], [[], []])
})
