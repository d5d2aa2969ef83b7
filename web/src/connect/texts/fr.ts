import type { Texts } from './en.ts';

export const texts: Texts = {
  title: 'Connecter votre boîte mail',
  asks: (who) => `${who} demande à lire et à envoyer des e-mails en votre nom.`,
  privacy: (who) =>
    `Votre mot de passe ou votre connexion est enregistré sous forme chiffrée. ${who} s’en sert pour lire et envoyer des ` +
    'e-mails jusqu’à ce que la boîte soit retirée d’ici, ou que vous changiez le mot de passe ou retiriez l’accès chez votre ' +
    'fournisseur.',
  language: 'Langue',
  moment: 'Un instant…',

  address: 'Adresse e-mail',
  password: 'Mot de passe',
  appPassword: 'Mot de passe d’application',
  show: 'Afficher le mot de passe',
  connect: 'Connecter la boîte',
  busy: 'Connexion en cours…',
  cancel: 'Annuler',
  cancelAndBack: 'Annuler et revenir',
  back: 'Revenir',
  continueWith: (provider) => `Continuer avec ${provider}`,
  orAppPassword: 'Ou connectez-vous avec un mot de passe d’application :',

  looking: 'Recherche de votre fournisseur…',
  lookupFailed: 'Votre fournisseur n’a pas pu être déterminé. Veuillez réessayer.',
  unknownServers:
    'Nous ne connaissons pas les serveurs de messagerie de cette adresse : veuillez les saisir ci-dessous. Votre fournisseur ' +
    'ou votre service informatique peut vous les indiquer.',
  notFoundTitle: 'Serveurs introuvables',
  more: 'Plus d’options',
  incoming: 'Courrier entrant (IMAP)',
  outgoing: 'Courrier sortant (SMTP)',
  server: 'Serveur',
  port: 'Port',
  encryption: 'Chiffrement',
  none: 'Aucun',

  closedTitle: 'Cette boîte ne peut pas être connectée avec un mot de passe',
  closedAdvice: (who) => `Veuillez utiliser une autre adresse, ou annuler et prévenir ${who}.`,
  closedOther: 'Ce fournisseur n’accepte plus les mots de passe pour les autres services.',
  closed: {
    microsoft:
      'Microsoft n’accepte plus les mots de passe pour Outlook.com, Hotmail et la plupart des boîtes Microsoft 365 : il faut ' +
      'se connecter chez Microsoft.',
    proton: 'Proton Mail chiffre les boîtes de telle sorte qu’aucun autre service ne peut les lire.',
    tuta: 'Tuta chiffre les boîtes de telle sorte qu’aucun autre service ne peut les lire.',
  },
  otherProvider: 'Cette boîte est chez un autre fournisseur',

  steps: {
    stepsTitle: 'Votre fournisseur exige un mot de passe d’application',
    imapTitle: 'Autorisez d’abord l’accès par IMAP',
    twoStep: 'Activez la validation en deux étapes, si elle ne l’est pas :',
    open: 'Ouvrez cette page et connectez-vous :',
    choose: (what) => `Choisissez « ${what} ».`,
    create: (name) => `Créez un nouveau mot de passe d’application. Si un nom est demandé, saisissez « ${name} ».`,
    paste: 'Copiez-le et collez-le ci-dessous. Les espaces n’ont pas d’importance.',
    switchOn: 'Activez l’accès par IMAP et enregistrez.',
    then: 'Saisissez ensuite ci-dessous le mot de passe de votre boîte.',
    help: 'Page d’aide du fournisseur',
    icloud: 'Connexion et sécurité → Mots de passe pour application',
  },

  failed: 'Cela n’a pas fonctionné',
  failures: {
    'errors/invalid_credentials':
      'Votre fournisseur n’a pas accepté cette adresse et ce mot de passe. Veuillez vérifier les deux.',
    'errors/provider_error':
      'Le serveur de messagerie n’a pas pu être joint, ou n’a pas répondu comme prévu. Veuillez réessayer plus tard.',
    'errors/provider_rejected': 'Votre fournisseur a refusé la connexion.',
    'errors/already_exists': 'Cette boîte est déjà connectée, par quelqu’un d’autre.',
    'errors/too_many_requests': 'Trop de tentatives. Veuillez patienter une minute.',
    'errors/service_unavailable': 'Le service est indisponible pour le moment. Veuillez réessayer dans un instant.',
    'errors/not_found': 'Ce lien ne fonctionne plus. Veuillez en demander un nouveau.',
    'errors/invalid_parameters': 'Une donnée du formulaire n’est pas correcte. Veuillez vérifier votre saisie.',
    '': 'Le service est injoignable. Veuillez vérifier votre connexion et réessayer.',
  },
  failedOther: 'Une erreur s’est produite de notre côté. Veuillez réessayer.',
  tryAppPassword:
    'Il faut un mot de passe d’application, créé comme indiqué ci-dessus, et non celui avec lequel vous vous connectez ' +
    'd’habitude.',
  tryImap: 'L’accès IMAP est-il activé, comme indiqué ci-dessus ?',
  details: 'Détails pour l’assistance',
  returned: {
    access_denied: 'Vous n’avez pas autorisé l’accès. Rien n’a été connecté.',
    other_address:
      'Vous vous êtes connecté avec une autre adresse que celle à connecter. Veuillez vous connecter avec cette adresse.',
    invalid_credentials:
      'Le serveur de messagerie n’a pas accepté la connexion. L’accès IMAP est peut-être désactivé pour cette boîte.',
    provider_rejected:
      'Le fournisseur n’accepte pas ce service actuellement. C’est à la personne qui vous a envoyé le lien d’y remédier.',
    provider_error: 'Le serveur de messagerie n’a pas pu être joint, ou n’a pas répondu comme prévu.',
    already_exists: 'Cette boîte est déjà connectée, par quelqu’un d’autre.',
    too_many_requests: 'Trop de tentatives. Veuillez patienter une minute.',
    expired:
      'La connexion a pris trop de temps, ou a commencé dans un autre navigateur. Veuillez ouvrir le lien à nouveau.',
  },
  returnedOther: 'La connexion chez le fournisseur a échoué. Veuillez réessayer.',

  goneTitle: 'Ce lien ne fonctionne pas',
  goneWhy: 'Il a peut-être été copié incomplètement, ou retiré.',
  askNew: (who) => `Veuillez en demander un nouveau à ${who} ou à la personne qui vous a envoyé le lien.`,
  wrong: 'Une erreur s’est produite',
  doneTitle: 'Votre boîte est connectée',
  done: 'C’est fait',
  doneText: 'Vous pouvez fermer cette page.',
  usedTitle: 'Ce lien a déjà été utilisé',
  usedText: 'Une boîte a été connectée avec ce lien.',
  expiredTitle: 'Ce lien a expiré',
  cancelledTitle: 'Rien n’a été connecté',
  cancelledText: 'Ce lien ne fonctionne plus.',
};
