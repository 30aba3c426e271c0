"""What the people of the synthetic hospital are called, where they live and what they come for.

Names, ZIP codes and diagnoses are ordinary public words; their combinations are drawn at random.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = [
    "DIAGNOSES",
    "DOCTORS",
    "ETHNICITIES",
    "FIRST_NAMES",
    "LANGUAGES",
    "LAST_NAMES",
    "NOTE_COURSES",
    "NOTE_ENDS",
    "NOTE_OPENINGS",
    "QUARTERS",
    "Diagnosis",
    "Quarter",
]

ETHNICITIES = ("White", "Black", "Hispanic", "Asian", "Haitian", "Brazilian", "Native American")

LANGUAGES = (
    "English", "Spanish", "Portuguese", "Haitian Creole", "Chinese", "Vietnamese", "Khmer",
    "Russian", "Arabic", "Italian", "American Sign Language",
)  # fmt: skip


class Quarter(NamedTuple):
    """A part of the region: its ZIP codes, most populous first, and who lives there."""

    zips: str
    weight: float
    wealth: float
    mix: tuple[float, ...]
    """Shares of `ETHNICITIES`."""


QUARTERS = (
    Quarter(
        "02124 02121 02119 02126 02122 02125 02136 02131 02368 02301", 0.24, -0.6,
        (0.18, 0.42, 0.17, 0.06, 0.14, 0.02, 0.010),
    ),
    Quarter(
        "02128 02150 02149 02151 02148 02145 02143 01902 01841 01905", 0.22, -0.5,
        (0.34, 0.07, 0.38, 0.05, 0.02, 0.13, 0.010),
    ),
    Quarter(
        "02138 02139 02140 02141 02142 02134 02135 02215 02163 02446 02445", 0.17, 0.4,
        (0.62, 0.09, 0.09, 0.18, 0.005, 0.01, 0.005),
    ),
    Quarter(
        "02111 02116 02118 02114 02115 02113 02109 02108 02110 02199 02210", 0.10, 0.5,
        (0.60, 0.09, 0.09, 0.20, 0.01, 0.005, 0.005),
    ),
    Quarter(
        "02169 02170 02171 02184 02186 02188 02190 02191 02189", 0.11, 0.1,
        (0.64, 0.05, 0.04, 0.24, 0.02, 0.007, 0.003),
    ),
    Quarter(
        "02453 02451 02472 02474 02476 02478 02420 02421 02459 02458 02460 02465 02467 02468 "
        "02461 02462 02464 02466 02481 02492 02493 02494 02482 01778 01776", 0.11, 0.9,
        (0.79, 0.03, 0.05, 0.12, 0.003, 0.004, 0.003),
    ),
    Quarter(
        "01854 01850 01851 01852 01853 01826 01876 01821", 0.03, -0.3,
        (0.46, 0.07, 0.20, 0.23, 0.004, 0.03, 0.006),
    ),
    Quarter(
        "02601 02630 02540 02554 02568 02539 02535 02657 02652 02666 02713 01267 01230 01247 "
        "01301 01364 01452 01531 01005 01083", 0.016, 0.1,
        (0.93, 0.015, 0.02, 0.01, 0.002, 0.008, 0.015),
    ),
    Quarter(
        "03820 03801 04101 04090 05301 05901 03602 03570 02903 02840 06106 06385 10021 33139",
        0.004, 0.5, (0.90, 0.03, 0.03, 0.02, 0.005, 0.005, 0.010),
    ),
)  # fmt: skip
"""Eastern Massachusetts, roughly, and a few visitors from afar (some from very small areas)."""

FIRST_NAMES = {
    ("F", "old"): (
        "Mary Barbara Patricia Dorothy Carol Nancy Judith Margaret Ruth Helen Joan Shirley Betty "
        "Frances Eleanor Virginia Alice Marie Rose Evelyn Irene Louise Phyllis Theresa Rita Gloria "
        "Marilyn Lillian Edith Agnes"
    ),
    ("M", "old"): (
        "John Robert James William Richard Joseph Charles Thomas Edward George Donald Paul Francis "
        "Frank Walter Harold Arthur Raymond Henry Albert Leo Ralph Eugene Louis Stanley Norman "
        "Bernard Herbert Clarence Alfred"
    ),
    ("F", "middle"): (
        "Linda Susan Karen Lisa Donna Jennifer Michelle Kimberly Maria Deborah Sandra Laura Amy "
        "Elizabeth Christine Ana Kathleen Julie Stephanie Melissa Heather Nicole Mei Carmen Rosa "
        "Marie-Claude Fabiana Thuy Ling Yolanda Denise Tanya Monique Renee Paula Gina Wanda Olga"
    ),
    ("M", "middle"): (
        "Michael David Mark Steven Kevin Brian Jeffrey Scott Daniel Christopher Jose Anthony "
        "Timothy Gregory Eric Stephen Luis Carlos Kenneth Matthew Jason Peter Wei Juan Marco "
        "Jean Reginald Andre Tyrone Darnell Hung Minh Sergei Rafael Miguel Patrick Sean"
    ),
    ("F", "young"): (
        "Emma Olivia Sophia Isabella Ava Mia Emily Abigail Madison Chloe Grace Hannah Camila "
        "Valentina Lucia Nevaeh Aaliyah Imani Zoe Anh Yuki Jasmine Gabriela Natalia Layla Maya "
        "Leah Sarah Rachel Ashley Jessica Samantha Brianna Alexis Kayla Fatima"
    ),
    ("M", "young"): (
        "Liam Noah Ethan Jacob Mason Lucas Alexander Aiden Jayden Daniel Gabriel Mateo Diego "
        "Elijah Isaiah Malik Jamal Xavier Tyler Joshua Ryan Kyle Brandon Dylan Hao Kenji Thiago "
        "Samuel Owen Caleb Nathan Omar Ibrahim Dmitri Andrew Justin"
    ),
}
"""First names by sex and generation."""

LAST_NAMES = {
    "White": (
        "Sullivan Murphy O'Brien Smith Johnson Kelly McCarthy Walsh Miller Anderson Brown Russo "
        "DeLuca Romano Ferrari Cohen Levine Kowalski Nowak Ivanov Petrov Lynch Doherty Burke "
        "Fitzgerald Donovan Flynn Clark Baker Hall Adams Hayes Larsen Schmidt Weber Lefebvre "
        "Papadopoulos Silvia Bennett Whitcomb Thayer Alden"
    ),
    "Black": (
        "Williams Jackson Washington Harris Robinson Jefferson Brown Davis Johnson Thomas Banks "
        "Coleman Freeman Bryant Dixon Simmons Hayes Okafor Mensah Tavares Monteiro Fernandes "
        "Campbell Grant Clarke Bennett"
    ),
    "Hispanic": (
        "Rodriguez Martinez Garcia Lopez Hernandez Gonzalez Perez Sanchez Ramirez Torres Rivera "
        "Diaz Cruz Ortiz Reyes Morales Vargas Castillo Guzman Mejia Pena Polanco Santos Zavala "
        "Escobar Melendez"
    ),
    "Asian": (
        "Nguyen Tran Chen Wang Li Zhang Liu Huang Wong Chan Kim Lee Park Patel Shah Singh Kumar "
        "Pham Le Vo Sok Chea Keo Tanaka Sato Lam Yee Ng Gupta Mehta"
    ),
    "Haitian": (
        "Jean Pierre Joseph Louis Charles Baptiste Francois Paul Jean-Louis Desir Toussaint "
        "Saint-Fleur Antoine Dorvil Celestin Alexis Michel Augustin"
    ),
    "Brazilian": (
        "Silva Santos Oliveira Souza Pereira Costa Rodrigues Almeida Ferreira Ribeiro Carvalho "
        "Gomes Martins Rocha Barbosa Teixeira"
    ),
    "Native American": (
        "Peters Mills Hendricks Pells Bingham Attaquin Haynes Vanderhoop Jeffers Widdiss"
    ),
}
"""Last names, most frequent first."""


class Diagnosis(NamedTuple):
    """A reason to be in hospital, and whom it befalls."""

    code: str
    name: str
    department: str
    weight: float
    age: float
    spread: float
    women: float
    """Share of women among its patients."""
    days: float
    cost: float
    """Thousand dollars, median."""


DIAGNOSES = (
    Diagnosis("Z38.0", "Liveborn infant", "Obstetrics", 9.0, 0, 0.3, 0.49, 2.2, 6),
    Diagnosis("O80", "Single spontaneous delivery", "Obstetrics", 7.5, 30, 5.5, 1.0, 2.1, 14),
    Diagnosis("O82", "Delivery by caesarean section", "Obstetrics", 3.5, 32, 5.0, 1.0, 3.6, 22),
    Diagnosis("O14.1", "Severe pre-eclampsia", "Obstetrics", 0.5, 31, 6.5, 1.0, 4.4, 24),
    Diagnosis("J21.9", "Acute bronchiolitis", "Pediatrics", 2.2, 1, 1.0, 0.42, 2.6, 9),
    Diagnosis("J45.901", "Asthma with exacerbation", "Pediatrics", 1.8, 9, 6.0, 0.44, 2.0, 8),
    Diagnosis("A09", "Infectious gastroenteritis", "Pediatrics", 1.3, 6, 9.0, 0.49, 2.1, 7),
    Diagnosis("G40.909", "Epilepsy", "Neurology", 1.1, 24, 22, 0.48, 3.0, 13),
    Diagnosis("K35.80", "Acute appendicitis", "Surgery", 2.4, 24, 14, 0.45, 2.1, 17),
    Diagnosis("S82.20", "Fracture of shaft of tibia", "Orthopedics", 1.3, 33, 17, 0.34, 3.6, 28),
    Diagnosis("S06.0", "Concussion", "Emergency", 1.0, 26, 18, 0.40, 1.2, 8),
    Diagnosis("F32.9", "Major depressive disorder", "Psychiatry", 2.6, 37, 16, 0.61, 6.5, 11),
    Diagnosis("F31.9", "Bipolar disorder", "Psychiatry", 1.3, 38, 14, 0.55, 8.0, 13),
    Diagnosis("F20.9", "Schizophrenia", "Psychiatry", 1.2, 40, 14, 0.38, 10.5, 15),
    Diagnosis("F10.239", "Alcohol withdrawal", "Psychiatry", 1.9, 47, 12, 0.27, 4.0, 9),
    Diagnosis("F11.20", "Opioid dependence", "Psychiatry", 1.5, 35, 11, 0.36, 4.4, 9),
    Diagnosis("T40.1X1A", "Poisoning by heroin", "Emergency", 0.6, 34, 11, 0.32, 1.9, 10),
    Diagnosis("B20", "HIV disease", "Infectious Diseases", 0.5, 44, 12, 0.27, 6.8, 24),
    Diagnosis("A41.9", "Sepsis", "Internal Medicine", 5.2, 69, 17, 0.49, 6.1, 32),
    Diagnosis("A15.0", "Tuberculosis of lung", "Infectious Diseases", 0.12, 46, 19, 0.40, 11, 30),
    Diagnosis("B18.2", "Chronic hepatitis C", "Infectious Diseases", 0.4, 53, 12, 0.38, 4.8, 16),
    Diagnosis("U07.1", "COVID-19", "Internal Medicine", 2.6, 66, 18, 0.49, 5.8, 22),
    Diagnosis("J18.9", "Pneumonia", "Internal Medicine", 3.4, 67, 21, 0.50, 4.4, 15),
    Diagnosis("J44.1", "COPD with exacerbation", "Internal Medicine", 2.5, 70, 10, 0.55, 4.1, 13),
    Diagnosis("I50.23", "Acute on chronic heart failure", "Cardiology", 4.2, 75, 12, 0.48, 5.1, 17),
    Diagnosis("I21.4", "Myocardial infarction", "Cardiology", 2.7, 68, 12, 0.37, 4.0, 31),
    Diagnosis("I48.91", "Atrial fibrillation", "Cardiology", 2.2, 71, 12, 0.48, 2.9, 14),
    Diagnosis("I63.9", "Cerebral infarction", "Neurology", 2.5, 71, 13, 0.50, 4.6, 22),
    Diagnosis("I61.9", "Intracerebral haemorrhage", "Neurology", 0.5, 68, 15, 0.47, 8.2, 45),
    Diagnosis("G20", "Parkinson's disease", "Neurology", 0.4, 76, 8, 0.40, 4.6, 14),
    Diagnosis("G30.9", "Alzheimer's disease", "Geriatrics", 0.8, 83, 6, 0.64, 7.2, 15),
    Diagnosis("G35", "Multiple sclerosis", "Neurology", 0.25, 42, 12, 0.74, 4.1, 19),
    Diagnosis("G12.21", "Amyotrophic lateral sclerosis", "Neurology", 0.05, 63, 10, 0.42, 6.2, 23),
    Diagnosis("E11.65", "Type 2 diabetes", "Internal Medicine", 2.2, 57, 14, 0.45, 3.6, 12),
    Diagnosis("E10.10", "Diabetic ketoacidosis", "Internal Medicine", 0.8, 29, 15, 0.51, 3.1, 12),
    Diagnosis("E84.0", "Cystic fibrosis", "Pediatrics", 0.08, 18, 9, 0.50, 9.5, 41),
    Diagnosis("D57.00", "Sickle-cell crisis", "Hematology", 0.4, 25, 11, 0.52, 4.9, 15),
    Diagnosis("N17.9", "Acute kidney failure", "Internal Medicine", 2.5, 71, 15, 0.46, 4.5, 14),
    Diagnosis("N39.0", "Urinary tract infection", "Internal Medicine", 2.0, 74, 18, 0.70, 3.6, 10),
    Diagnosis("N20.0", "Calculus of kidney", "Urology", 0.8, 51, 14, 0.41, 1.8, 13),
    Diagnosis("N40.1", "Enlarged prostate", "Urology", 0.6, 73, 9, 0.0, 1.9, 13),
    Diagnosis("K80.00", "Gallstones with cholecystitis", "Surgery", 1.7, 54, 17, 0.63, 3.0, 19),
    Diagnosis("K85.90", "Acute pancreatitis", "Internal Medicine", 1.4, 52, 16, 0.46, 4.2, 15),
    Diagnosis("K92.2", "Gastric haemorrhage", "Internal Medicine", 1.8, 69, 15, 0.46, 3.7, 15),
    Diagnosis("K50.90", "Crohn's disease", "Internal Medicine", 0.4, 36, 15, 0.53, 4.3, 16),
    Diagnosis("K70.30", "Cirrhosis of liver", "Internal Medicine", 0.7, 57, 10, 0.33, 5.4, 20),
    Diagnosis("C50.919", "Breast cancer", "Oncology", 0.8, 61, 12, 0.99, 2.2, 24),
    Diagnosis("C61", "Prostate cancer", "Oncology", 0.6, 67, 8, 0.0, 1.8, 22),
    Diagnosis("C34.90", "Lung cancer", "Oncology", 1.0, 69, 9, 0.49, 5.6, 29),
    Diagnosis("C18.9", "Colon cancer", "Oncology", 0.8, 67, 12, 0.48, 5.3, 29),
    Diagnosis("C25.9", "Pancreatic cancer", "Oncology", 0.3, 69, 9, 0.48, 6.4, 33),
    Diagnosis("C91.00", "Acute lymphoblastic leukemia", "Hematology", 0.15, 13, 14, 0.44, 13, 75),
    Diagnosis("C92.00", "Acute myeloblastic leukemia", "Hematology", 0.2, 63, 15, 0.46, 16, 90),
    Diagnosis("S72.001A", "Fracture of neck of femur", "Orthopedics", 1.9, 81, 10, 0.69, 5.2, 29),
    Diagnosis("M16.11", "Osteoarthritis of hip", "Orthopedics", 2.3, 67, 10, 0.55, 1.9, 24),
    Diagnosis("M17.11", "Osteoarthritis of knee", "Orthopedics", 2.8, 68, 9, 0.62, 1.9, 23),
    Diagnosis("M54.50", "Low back pain", "Orthopedics", 0.6, 55, 16, 0.52, 2.6, 11),
    Diagnosis("L03.90", "Cellulitis", "Internal Medicine", 1.8, 56, 18, 0.44, 3.6, 10),
    Diagnosis("R07.9", "Chest pain", "Emergency", 1.9, 56, 15, 0.50, 1.4, 7),
    Diagnosis("R55", "Syncope and collapse", "Emergency", 1.1, 68, 18, 0.52, 2.1, 9),
)  # fmt: skip

DOCTORS = {
    "Obstetrics": "Amara Okonkwo, Helen Fitzgerald, Julia Santos, Priya Raman, Anne Dubois",
    "Pediatrics": "Samuel Katz, Lin Zhao, Teresa Ruiz, Peter Donnelly",
    "Neurology": "Ingrid Halvorsen, Omar Haddad, David Feldman",
    "Surgery": "Thomas Brennan, Mei-Ling Wu, Carlos Fuentes, Ruth Abel",
    "Orthopedics": "Karl Jensen, Maureen Daly, Vikram Sethi",
    "Emergency": "Nadia Petrov, James Tully, Elena Marchetti, Kwame Boateng, Sara Lind, Joel Pratt",
    "Psychiatry": "Miriam Adler, Jonathan Price, Lucia Ferreira",
    "Infectious Diseases": "Farid Rahimi, Gail Stone",
    "Internal Medicine": (
        "Robert Chiang, Patricia Nolan, Yusuf Demir, Alice Grant, Ben Sorensen, Claire Moreau, "
        "Dev Patel, Esther Kim, Fiona Walsh, George Mavros, Hana Suzuki, Igor Balan"
    ),
    "Cardiology": "William Thorne, Anjali Rao, Stefan Brandt, Louise Carver",
    "Geriatrics": "Edith Sommer",
    "Hematology": "Leila Farouk, Martin Weiss",
    "Urology": "Paolo Conti, Neil Ashworth",
    "Oncology": "Grace Liu, Henrik Dahl, Rosa Jimenez",
}
"""Doctors of each department, the busiest first."""

NOTE_OPENINGS = (
    "Brought in by family after two days of symptoms",
    "Walked in at night with worsening complaints",
    "Referred by primary care physician",
    "Transferred from a community hospital",
    "Arrived by ambulance, found at home by a neighbor",
    "Came in from work, accompanied by a colleague",
    "Planned admission, all papers complete",
    "Returned after discharge from another hospital last month",
    "Sent by urgent care for further evaluation",
    "Known to the department, previous stay two years ago",
)
NOTE_COURSES = (
    "responded well to treatment",
    "needed a second line of therapy",
    "was observed overnight and improved",
    "was stabilized and seen by the consulting team",
    "had a fever on the second day that resolved",
    "declined part of the recommended workup",
    "required oxygen for a short time",
    "tolerated the procedure without complications",
    "was anxious, a social worker was involved",
    "had pain that was controlled with oral medication",
    "needed an interpreter for consent",
    "fell once on the ward without injury",
)
NOTE_ENDS = (
    "Discharged home with follow-up in two weeks.",
    "Discharged to a rehabilitation facility.",
    "Home with visiting nurse; spouse informed.",
    "Follow-up by phone, daughter will arrange transport.",
    "Left against medical advice.",
    "Employer asked for a letter; patient consented.",
    "Outpatient clinic appointment given.",
    "Medication list reviewed with patient.",
    "Lives alone, home services requested.",
    "Will see own doctor within the week.",
)
