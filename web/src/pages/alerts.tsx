import type { Schemas } from '../api/client.ts';
import { Badge, Time } from '../ui/parts.tsx';

type Channel = Schemas['Alerts']['channels'][number];

const NAMES: Record<Channel['channel'], [string, string]> = {
  url: ['By URL', 'ALERT_URL'],
  email: ['By mail', 'ALERT_EMAIL'],
};

/** Which alerts are on, and the last message of each. */
export function AlertsCard({ alerts }: { alerts: Schemas['Alerts'] }) {
  return (
    <section class="card" aria-labelledby="alerts">
      <div class="card-head">
        <h2 id="alerts">Alerts</h2>
        <span class="quiet small">{alerts.open === 0 ? 'No open problem was reported' : `${alerts.open} open`}</span>
      </div>
      <dl class="facts card-body">
        {alerts.channels.map((channel) => (
          <Row key={channel.channel} channel={channel} />
        ))}
      </dl>
    </section>
  );
}

function Row({ channel: { channel, is_on: isOn, last } }: { channel: Channel }) {
  const [name, setting] = NAMES[channel];
  return (
    <>
      <dt>{name}</dt>
      <dd class="stack-s">
        {!isOn && (
          <span class="quiet">
            Off: <code>{setting}</code> is not set.
          </span>
        )}
        {isOn && !last && <span>On. Nothing was sent yet.</span>}
        {isOn && last && (
          <>
            <span class="row">
              {last.sent_at === null ? (
                <Badge tone={last.error === null ? 'idle' : 'bad'}>
                  {last.error === null ? 'being sent' : 'not sent'}
                </Badge>
              ) : (
                <Badge tone="good">sent</Badge>
              )}
              <Time at={last.sent_at ?? last.at} />
            </span>
            {last.error !== null && <span class="small">{sentence(last.error)}</span>}
            <span class="small quiet message">{last.text}</span>
          </>
        )}
      </dd>
    </>
  );
}

const sentence = (text: string) => `${text.charAt(0).toUpperCase()}${text.slice(1).replace(/\.$/, '')}.`;
