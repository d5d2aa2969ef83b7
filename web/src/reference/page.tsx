import { useEffect, useMemo, useState } from 'preact/hooks';
import { BASE } from '../api/client.ts';
import iconUrl from '../icon.svg';
import { TextField } from '../ui/field.tsx';
import { Empty } from '../ui/parts.tsx';
import { SkipLink } from '../ui/skip.tsx';
import { ThemeSwitch } from '../ui/theme.tsx';
import { Toasts } from '../ui/toast.tsx';
import { type Call, type OpenApi, type Section, sectionsOf } from './document.ts';
import { NamedSchemas } from './fields.tsx';
import { Operation } from './operation.tsx';
import { Text } from './text.tsx';

/** Address of an operation in this page; the page has a base, which links relative to `#` would use. */
const linkTo = (section: string, { operationId }: Call) =>
  `${location.pathname}#/${encodeURIComponent(section)}/${operationId}`;

const idOfHash = () => location.hash.split('/').at(-1) ?? '';

export function ReferencePage({ document: api }: { document: OpenApi }) {
  const sections = useMemo(() => sectionsOf(api), [api]);
  const [search, setSearch] = useState('');
  const [apiKey, setApiKey] = useState('');
  const [open, turn] = useOpened();
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  const shown = found(sections, words);
  return (
    <NamedSchemas.Provider value={api.components.schemas}>
      <SkipLink />
      <div class="shell">
        <aside class="side">
          <a href={`${BASE}/`} class="brand">
            <img src={iconUrl} alt="" width="28" height="28" />
            Email API
          </a>
          <TextField
            label="Search the calls"
            type="search"
            value={search}
            set={setSearch}
            placeholder="webhook, cursor, …"
          />
          <Contents sections={shown} isOpen={words.length > 0} />
          <div class="side-foot">
            <ThemeSwitch />
          </div>
        </aside>
        <main class="main" id="content" tabIndex={-1}>
          <div class="page">
            <Introduction api={api} apiKey={apiKey} setApiKey={setApiKey} />
            {shown.length === 0 && <Empty title="No call has these words" />}
            {shown.map(({ name, description, calls }) => (
              <section class="stack-s" key={name} aria-label={name}>
                <h2>{name}</h2>
                <p class="quiet">{description}</p>
                {calls.map((call) => (
                  <Operation
                    key={call.operationId}
                    call={call}
                    isOpen={open.has(call.operationId)}
                    toggle={() => {
                      if (turn(call.operationId)) history.replaceState(null, '', linkTo(name, call));
                    }}
                    apiKey={apiKey}
                  />
                ))}
              </section>
            ))}
          </div>
        </main>
      </div>
      <Toasts />
    </NamedSchemas.Provider>
  );
}

/** The sections with the calls that have all words. */
function found(sections: Section[], words: string[]): Section[] {
  return sections
    .map((section) => ({
      ...section,
      calls: section.calls.filter((call) => words.every((word) => call.words.includes(word))),
    }))
    .filter(({ calls }) => calls.length > 0);
}

/** The open operations: those that the address named and those that were clicked; and what turns one, and returns whether it opens. */
function useOpened(): [ReadonlySet<string>, (id: string) => boolean] {
  const [open, setOpen] = useState<ReadonlySet<string>>(() => new Set([idOfHash()]));
  useEffect(() => {
    const follow = () => {
      setOpen((before) => new Set(before).add(idOfHash()));
      document.getElementById(idOfHash())?.scrollIntoView();
    };
    follow();
    window.addEventListener('hashchange', follow);
    return () => window.removeEventListener('hashchange', follow);
  }, []);
  const turn = (id: string) => {
    const after = new Set(open);
    const wasOpen = after.delete(id);
    if (!wasOpen) after.add(id);
    setOpen(after);
    return !wasOpen;
  };
  return [open, turn];
}

function Contents({ sections, isOpen }: { sections: Section[]; isOpen: boolean }) {
  return (
    <nav class="contents" aria-label="Calls">
      {sections.map(({ name, calls }) => (
        <details key={name} open={isOpen}>
          <summary>{name}</summary>
          <ul>
            {calls.map((call) => (
              <li key={call.operationId}>
                <a href={linkTo(name, call)}>{call.summary}</a>
              </li>
            ))}
          </ul>
        </details>
      ))}
    </nav>
  );
}

interface IntroductionProps {
  api: OpenApi;
  apiKey: string;
  setApiKey: (key: string) => void;
}

function Introduction({ api: { info }, apiKey, setApiKey }: IntroductionProps) {
  return (
    <>
      <header class="page-head">
        <div>
          <h1>{info.title}</h1>
          <p>
            Version {info.version} · <a href={`${BASE}/openapi.json`}>OpenAPI document</a> ·{' '}
            <a href={`${BASE}/docs/`}>Documents</a>
          </p>
        </div>
      </header>
      <p>
        <Text of={info.description} />
      </p>
      <div class="card pad access">
        <TextField
          label="API key"
          type="password"
          autoComplete="off"
          value={apiKey}
          set={setApiKey}
          help={
            <>
              Sent as <code>X-API-KEY</code> and not stored. Empty: calls use your session of the{' '}
              <a href={`${BASE}/`}>dashboard</a>.
            </>
          }
        />
      </div>
    </>
  );
}
