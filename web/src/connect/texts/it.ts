import type { Texts } from './en.ts';

export const texts: Texts = {
  title: 'Collega la tua casella di posta',
  asks: (who) => `${who} chiede di leggere e inviare email per tuo conto.`,
  privacy: (who) =>
    `La tua password o il tuo accesso viene conservato in forma cifrata. ${who} lo usa per leggere e inviare email finché la ` +
    'casella non viene rimossa qui, o finché non cambi la password o revochi l’accesso presso il tuo fornitore.',
  language: 'Lingua',
  moment: 'Un momento…',

  address: 'Indirizzo email',
  password: 'Password',
  appPassword: 'Password per le app',
  show: 'Mostra password',
  connect: 'Collega la casella',
  busy: 'Accesso in corso…',
  cancel: 'Annulla',
  cancelAndBack: 'Annulla e torna indietro',
  back: 'Torna indietro',
  continueWith: (provider) => `Continua con ${provider}`,
  orAppPassword: 'Oppure collegati con una password per le app:',

  looking: 'Ricerca del tuo fornitore…',
  lookupFailed: 'Non è stato possibile individuare il tuo fornitore. Riprova.',
  unknownServers:
    'Non conosciamo i server di posta di questo indirizzo: inseriscili qui sotto. Il tuo fornitore o l’assistenza informatica ' +
    'può indicarteli.',
  notFoundTitle: 'Server non trovati',
  more: 'Altre opzioni',
  incoming: 'Posta in arrivo (IMAP)',
  outgoing: 'Posta in uscita (SMTP)',
  server: 'Server',
  port: 'Porta',
  encryption: 'Crittografia',
  none: 'Nessuna',

  closedTitle: 'Questa casella non può essere collegata con una password',
  closedAdvice: (who) => `Usa un altro indirizzo, oppure annulla e avvisa ${who}.`,
  closedOther: 'Questo fornitore non accetta più password da altri servizi.',
  closed: {
    microsoft:
      'Microsoft non accetta più password per Outlook.com, Hotmail e la maggior parte delle caselle Microsoft 365: occorre ' +
      'accedere presso Microsoft.',
    proton: 'Proton Mail cifra le caselle in modo che nessun altro servizio possa leggerle.',
    tuta: 'Tuta cifra le caselle in modo che nessun altro servizio possa leggerle.',
  },
  otherProvider: 'Questa casella è presso un altro fornitore',

  steps: {
    stepsTitle: 'Il tuo fornitore richiede una password per le app',
    imapTitle: 'Prima consenti l’accesso tramite IMAP',
    twoStep: 'Attiva la verifica in due passaggi, se non lo è già:',
    open: 'Apri questa pagina e accedi:',
    choose: (what) => `Scegli «${what}».`,
    create: (name) => `Crea una nuova password per le app. Se viene chiesto un nome, scrivi «${name}».`,
    paste: 'Copiala e incollala qui sotto. Gli spazi non contano.',
    switchOn: 'Attiva l’accesso tramite IMAP e salva.',
    then: 'Poi scrivi qui sotto la password della tua casella.',
    help: 'Pagina di assistenza del fornitore',
    icloud: 'Accesso e sicurezza → Password specifiche per le app',
  },

  failed: 'Non ha funzionato',
  failures: {
    'errors/invalid_credentials':
      'Il tuo fornitore non ha accettato questo indirizzo e questa password. Controlla entrambi.',
    'errors/provider_error':
      'Il server di posta non è raggiungibile o non ha risposto come previsto. Riprova più tardi.',
    'errors/provider_rejected': 'Il tuo fornitore ha rifiutato il collegamento.',
    'errors/already_exists': 'Questa casella è già collegata da qualcun altro.',
    'errors/too_many_requests': 'Troppi tentativi. Attendi un minuto.',
    'errors/service_unavailable': 'Il servizio non è disponibile in questo momento. Riprova tra poco.',
    'errors/not_found': 'Questo link non funziona più. Chiedine uno nuovo.',
    'errors/invalid_parameters': 'Un dato del modulo non è corretto. Controlla ciò che hai scritto.',
    '': 'Il servizio non è raggiungibile. Controlla la connessione e riprova.',
  },
  failedOther: 'Qualcosa è andato storto da parte nostra. Riprova.',
  tryAppPassword:
    'Deve essere una password per le app, creata come descritto sopra, non la password con cui accedi di solito.',
  tryImap: 'L’accesso tramite IMAP è attivo, come descritto sopra?',
  details: 'Dettagli per l’assistenza',
  returned: {
    access_denied: 'Non hai consentito l’accesso. Non è stato collegato nulla.',
    other_address:
      'Hai effettuato l’accesso con un indirizzo diverso da quello da collegare. Accedi con quell’indirizzo.',
    invalid_credentials: 'Il server di posta non ha accettato l’accesso. Forse IMAP è disattivato per questa casella.',
    provider_rejected: 'Al momento il fornitore non accetta questo servizio. Deve rimediare chi ti ha inviato il link.',
    provider_error: 'Il server di posta non è raggiungibile o non ha risposto come previsto.',
    already_exists: 'Questa casella è già collegata da qualcun altro.',
    too_many_requests: 'Troppi tentativi. Attendi un minuto.',
    expired: 'L’accesso ha richiesto troppo tempo o è iniziato in un altro browser. Apri di nuovo il link.',
  },
  returnedOther: 'L’accesso presso il fornitore non è riuscito. Riprova.',

  goneTitle: 'Questo link non funziona',
  goneWhy: 'Forse è stato copiato in modo incompleto o è stato ritirato.',
  askNew: (who) => `Chiedine uno nuovo a ${who} o alla persona che ti ha inviato il link.`,
  wrong: 'Qualcosa è andato storto',
  doneTitle: 'La tua casella è collegata',
  done: 'Fatto',
  doneText: 'Puoi chiudere questa pagina.',
  usedTitle: 'Questo link è già stato usato',
  usedText: 'È servito a collegare una casella.',
  expiredTitle: 'Questo link è scaduto',
  cancelledTitle: 'Non è stato collegato nulla',
  cancelledText: 'Questo link non funziona più.',
};
