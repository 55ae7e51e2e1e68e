import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import t from 'tap'
import { openBrowser } from '../support/browser.ts'
import { startConsoleNode } from '../support/console-node.ts'
import { axeFaults } from '../support/page-checks.ts'
import { withoutServers } from '../support/servers.ts'
import { openPerson } from './console-person.ts'
import { startIssuer } from './oidc-issuer.ts'
import { assertUnlogged, CALLBACK, configure, consoleFields, SECRET_ENV } from './single-sign-on.ts'

t.test(
  'people sign in at their identity provider, in a browser',
  { skip: withoutServers, timeout: 300_000 },
  async (t) => {
    // Another site than the gateway, as an issuer always is: so cookies go as they would.
    const issuer = await startIssuer(t, 'localhost')
    const node = await startConsoleNode(t, { env: SECRET_ENV })
    issuer.register(node.url)
    Object.assign(issuer.people, {
      ada: { email: 'ada@example.com', groups: ['gateway-operators'] },
      ben: { email: 'ben@example.com', groups: ['speech team'] },
      eve: { email: 'eve@example.com', groups: ['nobody'] },
    })
    await configure(node, consoleFields(node.url, issuer), ({ oidc }) => oidc !== null)
    const browser = await openBrowser(t)
    const { page, complaints, row, dialog } = await openPerson(browser, node.url)
    const button = page.getByRole('link', { name: 'Sign in with Test ID' })
    const heading = (name: string) => page.getByRole('heading', { level: 1, name }).waitFor()
    const enter = async (person: string) => {
      issuer.person = person
      await button.click()
    }
    const account = async () => {
      await page.getByRole('button', { name: 'session and theme' }).click()
      return page.locator('#account')
    }
    /** Signs out here and at the issuer, which asks whether that is meant. */
    const leave = async () => {
      await (await account()).getByRole('button', { name: 'Sign out' }).click()
      await page.waitForURL(/\/session\/end/)
      await page.getByRole('button', { name: /yes/i }).click()
      await button.waitFor()
    }

    await t.test('the page offers both ways, and leads to the issuer and back', async (t) => {
      await page.goto('/console/acme/keys?status=all')
      await button.waitFor()
      t.same(await axeFaults(page), [])
      await page.getByLabel('API key').waitFor()
      await enter('ada')
      await heading('Keys')
      t.equal(new URL(page.url()).pathname, '/console/acme/keys', 'where it was left')
      const panel = await account()
      t.match(await panel.textContent(), /ada@example\.com.*operator/)
      await panel.getByRole('link', { name: 'Sessions' }).click()
      await heading('Sessions')
      await row('Sessions of the console', 'ada@example.com').getByText('this one').waitFor()
      t.same(await axeFaults(page), [])
      await page.goto('/console/audit')
      await row('Changes, newest first', 'session.begin').getByText('ada@example.com').first().waitFor()
    })

    await t.test('signing out ends the session at the issuer, too', async (t) => {
      await leave()
      t.equal(new URL(page.url()).pathname, '/console')
      await enter('ben')
      await heading('Overview')
      t.match(await (await account()).textContent(), /ben@example\.com.*admin/, 'the issuer asked anew')
      await page.keyboard.press('Escape')
      const options = page.getByLabel('Workspace').locator('option')
      await options.nth(1).waitFor({ state: 'attached' })
      t.same(await options.evaluateAll((all) => all.map((one) => (one as { value?: string }).value)), [
        'acme',
        'other',
      ])
      await page.getByLabel('Workspace').selectOption('other')
      await page.waitForURL(/\/console\/other\/overview/)
      await heading('Overview')
      await page.goto('/console/ops/overview')
      await page.getByText('This page doesn’t exist, or you can’t access it').waitFor()
      t.equal(await page.getByRole('navigation').getByRole('link', { name: 'Workspaces' }).count(), 0)
    })

    await t.test(
      'a session that is over asks for the way in again, and continues where it was',
      async (t) => {
        await page.goto('/console/other/routes')
        await heading('Routes')
        const state = new DatabaseSync(join(node.dataFolder, 'state.sqlite'))
        t.teardown(() => state.close())
        state.exec('PRAGMA busy_timeout = 5000')
        state.prepare('UPDATE console_sessions SET expires_at_ms = ?').run(Date.now() + 2_000)
        await page.reload()
        await heading('Routes')
        await dialog('Sign in').getByText('Your session has expired').waitFor()
        t.same(await axeFaults(page), [])
        await enter('ben')
        await heading('Routes')
        t.equal(new URL(page.url()).pathname, '/console/other/routes')
      },
    )

    await t.test('what goes wrong is said in a sentence', async (t) => {
      await leave()
      const told = async (person: string, sentence: RegExp) => {
        await page.goto('/console')
        await enter(person)
        await page.getByRole('alert').filter({ hasText: sentence }).waitFor()
        t.equal(page.url(), `${node.url}/console`, 'the address says nothing of it any more')
      }
      await told('eve', /you have no role here/)
      t.same(await axeFaults(page), [])
      await enter('ben')
      await heading('Overview')
      t.match(await (await account()).textContent(), /ben@example\.com/, 'the issuer asked who it is')
      await page.keyboard.press('Escape')
      await leave()
      issuer.tampering = { claims: { nonce: 'another' } }
      await told('ada', /could not be accepted/)
      issuer.tampering = { claims: { iss: 'https://other.example' } }
      await told('ada', /could not be accepted/)
      issuer.tampering = null
      issuer.hangs = /\/token$/
      // No reader waits for an answer that never comes.
      await told('ada', /doesn’t answer/)
      issuer.hangs = null

      let callback = ''
      page.on('request', (request) => {
        if (request.url().includes(`${CALLBACK}?`)) callback = request.url()
      })
      await page.goto('/console')
      issuer.rotate()
      await enter('ada')
      await heading('Overview')
      t.match(callback, /[?&]code=/)
      const stranger = await browser.newContext()
      t.teardown(() => stranger.close())
      const elsewhere = await stranger.newPage()
      await elsewhere.goto(callback)
      await elsewhere.getByRole('alert').filter({ hasText: 'was already used' }).waitFor()
      await page.context().clearCookies({ name: 'lk_console' })
      await page.goto(callback)
      await page.getByRole('alert').filter({ hasText: 'was already used' }).waitFor()
      assertUnlogged(t, node, [...issuer.secrets, new URL(callback).searchParams.get('code') ?? ''])
    })

    await t.test('without keys the issuer is the only way in', async (t) => {
      await configure(
        node,
        consoleFields(node.url, issuer, { key_sign_in: false }),
        ({ keys }) => keys === false,
      )
      await page.goto('/console')
      await button.waitFor()
      t.equal(await page.getByLabel('API key').count(), 0)
      t.same(await axeFaults(page), [])
      await enter('ada')
      await heading('Overview')
      t.same(
        complaints.said.filter((line) => !line.includes('Content Security Policy')),
        [],
        'nothing broke in the page',
      )
    })
  },
)
