import { useState } from 'preact/hooks'
import { html } from '../../html.ts'
import { Code } from '../../parts/code.ts'
import { Section } from '../../parts/page-head.ts'
import { Tabs } from '../../parts/tabs.ts'
import type { Snippets } from './snippets.ts'

const LANGUAGES = [
  { id: 'curl', label: 'curl' },
  { id: 'javascript', label: 'JavaScript' },
  { id: 'python', label: 'Python' },
] as const

type Language = (typeof LANGUAGES)[number]['id']

/** The call with the options as they stand, for other programs. */
export function SnippetsView({ snippets }: { readonly snippets: Snippets }) {
  const [language, setLanguage] = useState<Language>('curl')
  const text = snippets[language]
  return html`<${Section}
    title="Code"
    lead="Uses the options above. Set LARKWAY_API_KEY to a key of the app."
  >
    <${Tabs} label="Language" tabs=${LANGUAGES} chosen=${language} onChoose=${(id: Language) => setLanguage(id)}>
      <${Code} title=${titleOf(language, text)} text=${text} />
    <//>
  <//>`
}

function titleOf(language: Language, text: string): string {
  if (language === 'curl') return 'Shell'
  const hasClient = /\bopenai\b/.test(text)
  if (language === 'javascript') return hasClient ? 'Node.js, npm install openai' : 'Node.js'
  return hasClient ? 'Python, pip install openai' : 'Python, pip install requests'
}
