import type { Texts } from './en.ts';

export const texts: Texts = {
  title: 'Je mailbox koppelen',
  asks: (who) => `${who} vraagt toestemming om namens jou e-mail te lezen en te versturen.`,
  privacy: (who) =>
    `Je wachtwoord of aanmelding wordt versleuteld opgeslagen. ${who} leest en verstuurt daarmee e-mail totdat de mailbox hier ` +
    'wordt verwijderd, of totdat je bij je provider het wachtwoord wijzigt of de toegang intrekt.',
  language: 'Taal',
  moment: 'Een ogenblik …',

  address: 'E-mailadres',
  password: 'Wachtwoord',
  appPassword: 'App-wachtwoord',
  show: 'Wachtwoord tonen',
  connect: 'Mailbox koppelen',
  busy: 'Bezig met inloggen …',
  cancel: 'Annuleren',
  cancelAndBack: 'Annuleren en terug',
  back: 'Terug',
  continueWith: (provider) => `Doorgaan met ${provider}`,
  orAppPassword: 'Of koppel met een app-wachtwoord:',

  looking: 'Je provider wordt opgezocht …',
  lookupFailed: 'Je provider kon niet worden opgezocht. Probeer het opnieuw.',
  unknownServers:
    'We kennen de mailservers van dit adres niet: vul ze hieronder in. Je provider of je IT-afdeling kan je vertellen welke het ' +
    'zijn.',
  notFoundTitle: 'De servers zijn niet gevonden',
  more: 'Meer opties',
  incoming: 'Inkomende mail (IMAP)',
  outgoing: 'Uitgaande mail (SMTP)',
  server: 'Server',
  port: 'Poort',
  encryption: 'Versleuteling',
  none: 'Geen',

  closedTitle: 'Deze mailbox kan niet met een wachtwoord worden gekoppeld',
  closedAdvice: (who) => `Gebruik een ander adres, of annuleer en laat het ${who} weten.`,
  closedOther: 'Deze provider staat geen wachtwoorden meer toe voor andere diensten.',
  closed: {
    microsoft:
      'Microsoft accepteert geen wachtwoorden meer voor Outlook.com, Hotmail en de meeste mailboxen van Microsoft 365: je moet je ' +
      'aanmelden bij Microsoft.',
    proton: 'Proton Mail versleutelt mailboxen zo dat geen andere dienst ze kan lezen.',
    tuta: 'Tuta versleutelt mailboxen zo dat geen andere dienst ze kan lezen.',
  },
  otherProvider: 'Deze mailbox is bij een andere provider',

  steps: {
    stepsTitle: 'Je provider vraagt om een app-wachtwoord',
    imapTitle: 'Sta eerst toegang via IMAP toe',
    twoStep: 'Zet verificatie in twee stappen aan, als die uit staat:',
    open: 'Open deze pagina en log in:',
    choose: (what) => `Kies ‘${what}’.`,
    create: (name) => `Maak een nieuw app-wachtwoord. Wordt er om een naam gevraagd, vul dan ‘${name}’ in.`,
    paste: 'Kopieer het en plak het hieronder. Spaties maken niet uit.',
    switchOn: 'Zet toegang via IMAP aan en sla op.',
    then: 'Vul daarna hieronder het wachtwoord van je mailbox in.',
    help: 'Hulppagina van de provider',
    icloud: 'Inloggen en beveiliging → App-specifieke wachtwoorden',
  },

  failed: 'Dat is niet gelukt',
  failures: {
    'errors/invalid_credentials': 'Je provider heeft dit adres en wachtwoord niet geaccepteerd. Controleer ze allebei.',
    'errors/provider_error':
      'De mailserver was niet bereikbaar of antwoordde niet zoals verwacht. Probeer het later opnieuw.',
    'errors/provider_rejected': 'Je provider heeft de verbinding geweigerd.',
    'errors/already_exists': 'Deze mailbox is al gekoppeld, door iemand anders.',
    'errors/too_many_requests': 'Te veel pogingen. Wacht een minuut.',
    'errors/service_unavailable': 'De dienst is nu niet beschikbaar. Probeer het zo meteen opnieuw.',
    'errors/not_found': 'Deze link werkt niet meer. Vraag een nieuwe aan.',
    'errors/invalid_parameters': 'Er klopt iets niet in het formulier. Controleer wat je hebt ingevuld.',
    '': 'De dienst is niet bereikbaar. Controleer je verbinding en probeer het opnieuw.',
  },
  failedOther: 'Er is bij ons iets misgegaan. Probeer het opnieuw.',
  tryAppPassword:
    'Het moet een app-wachtwoord zijn, gemaakt zoals hierboven beschreven, niet het wachtwoord waarmee je normaal inlogt.',
  tryImap: 'Staat toegang via IMAP aan, zoals hierboven beschreven?',
  details: 'Details voor de helpdesk',
  returned: {
    access_denied: 'Je hebt geen toegang gegeven. Er is niets gekoppeld.',
    other_address:
      'Je hebt je aangemeld met een ander adres dan het adres dat gekoppeld moet worden. Meld je aan met dat adres.',
    invalid_credentials:
      'De mailserver heeft de aanmelding niet geaccepteerd. Misschien staat IMAP uit voor deze mailbox.',
    provider_rejected:
      'De provider laat deze dienst op dit moment niet toe. Wie je de link stuurde, moet dat oplossen.',
    provider_error: 'De mailserver was niet bereikbaar of antwoordde niet zoals verwacht.',
    already_exists: 'Deze mailbox is al gekoppeld, door iemand anders.',
    too_many_requests: 'Te veel pogingen. Wacht een minuut.',
    expired: 'Het aanmelden duurde te lang of is in een andere browser begonnen. Open de link opnieuw.',
  },
  returnedOther: 'Het aanmelden bij de provider is mislukt. Probeer het opnieuw.',

  goneTitle: 'Deze link werkt niet',
  goneWhy: 'Misschien is hij niet helemaal gekopieerd, of ingetrokken.',
  askNew: (who) => `Vraag een nieuwe aan ${who} of aan degene die je de link stuurde.`,
  wrong: 'Er is iets misgegaan',
  doneTitle: 'Je mailbox is gekoppeld',
  done: 'Klaar',
  doneText: 'Je kunt deze pagina sluiten.',
  usedTitle: 'Deze link is al gebruikt',
  usedText: 'Er is een mailbox mee gekoppeld.',
  expiredTitle: 'Deze link is verlopen',
  cancelledTitle: 'Er is niets gekoppeld',
  cancelledText: 'Deze link werkt niet meer.',
};
